// The shipped model, as a program in C# uses it.   mono test.exe MODEL
using System;
using System.Collections.Generic;
using Pumice.Native;

static class Test
{
  static int failures;

  static void Check(bool right, string what)
  {
    if (right) return;
    ++failures;
    Console.WriteLine("FAILED: " + what);
  }

  static T Throws<T>(Action work, string what) where T : Exception
  {
    try { work(); }
    catch (T exception) { return exception; }
    Check(false, what + " throws no " + typeof(T).Name);
    return null;
  }

  static int Main(string[] arguments)
  {
    foreach (var each in Functions.Sizes())
      Check(each.Item2 == each.Item3, each.Item1 + " has " + each.Item2 + " bytes: expected " + each.Item3);
    var device = new Pumice.Device();
    Check(device.Name != "", "the device's name");
    var model = new Pumice.Model(device, arguments[0]);
    device.Dispose();
    device.Dispose();
    Throws<ObjectDisposedException>(() => { var _ = device.Name; }, "a device that is disposed of");
    using (var session = new Pumice.Session(model, 128))
    {
      model.Dispose(); // the session keeps it
      var options = new Pumice.Options { MaxTokens = 8, NewConversation = true };
      var pieces = new List<string>();
      string whole = session.Generate("Once upon a time", options, pieces.Add);
      Check(pieces.Count > 3 && string.Concat(pieces) == whole, "the pieces are the text");
      GC.Collect();
      Check(session.Generate("Once upon a time", options) == whole, "the same again");
      string chosen = session.Generate("The cat is", new Pumice.Options { Choices = new[] { "happy", "a dog" }, NewConversation = true });
      Check(chosen == "happy" || chosen == "a dog", "a choice: " + chosen);
      var wrong = Throws<Pumice.Error>(() => session.Generate("Once", new Pumice.Options { Temperature = -1 }), "a wrong temperature");
      Check(wrong != null && wrong.Status == pumice_status.PUMICE_INVALID_ARGUMENT && wrong.Message.Contains("temperature is -1"), "its error");
      Throws<ArgumentException>(() => session.Generate("a\0b"), "a NUL");
      Throws<DivideByZeroException>(() => session.Generate("Once", options, piece => { int zero = 0; zero = 1 / zero; }), "a callback");
      Check(session.Generate("Once upon a time", options) == whole, "the same after an exception");
    }
    using (var again = new Pumice.Device())
      Check(Throws<Pumice.Error>(() => new Pumice.Model(again, "nowhere.gguf"), "no file")?.Status == pumice_status.PUMICE_NOT_FOUND, "no file");
    return failures;
  }
}
