// Tells a story.   mono story.exe MODEL ["Once upon a time"]
using System;

static class Story
{
  static int Main(string[] arguments)
  {
    if (arguments.Length == 0)
    {
      Console.Error.WriteLine("usage: story MODEL [PROMPT]");
      return 2;
    }
    string prompt = arguments.Length > 1 ? arguments[1] : "Once upon a time";
    using (var device = new Pumice.Device())
    using (var model = new Pumice.Model(device, arguments[0]))
    using (var session = new Pumice.Session(model, 256))
    {
      Console.Write(prompt);
      session.Generate(prompt, new Pumice.Options { MaxTokens = 60 }, Console.Write);
      Console.WriteLine();
    }
    return 0;
  }
}
