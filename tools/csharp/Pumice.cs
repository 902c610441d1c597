// Pumice: transformer models on any Vulkan 1.2 device. A page over Pumice.Native, which is everything that pumice.h declares.
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using Pumice.Native;
using static Pumice.Native.Functions;

namespace Pumice
{
  /// <summary>What Pumice cannot do: a status to branch on, and a sentence.</summary>
  public class Error : Exception
  {
    public readonly pumice_status Status;
    public Error(pumice_status status, string message) : base(message) { Status = status; }
  }

  static unsafe class C
  {
    public static string Text(byte* text)
    {
      int length = 0;
      while (text[length] != 0) ++length;
      return Encoding.UTF8.GetString(text, length);
    }

    // UTF-8 with a zero at its end, for as long as the call that it is pinned for.
    public static byte[] Bytes(string text, string name)
    {
      if (text.IndexOf('\0') >= 0) throw new ArgumentException(name + " has the character NUL");
      return Encoding.UTF8.GetBytes(text + '\0');
    }

    public static void Check(pumice_status status, pumice_error* error)
    {
      if (status != pumice_status.PUMICE_OK) throw new Error(status, Text(error->message));
    }
  }

  // Texts that stay where they are during a call.
  sealed unsafe class PinnedTexts : IDisposable
  {
    readonly List<GCHandle> handles = new List<GCHandle>();

    public byte* Add(string text, string name)
    {
      handles.Add(GCHandle.Alloc(C.Bytes(text, name), GCHandleType.Pinned));
      return (byte*)handles[handles.Count - 1].AddrOfPinnedObject();
    }

    public void Dispose()
    {
      foreach (GCHandle each in handles) each.Free();
    }
  }

  /// <summary>A handle that is destroyed once: by Dispose(), at the end of a using statement, or by the garbage collector.</summary>
  public abstract class Handle : SafeHandle
  {
    protected Handle() : base(IntPtr.Zero, true) { }
    public override bool IsInvalid => handle == IntPtr.Zero;
    internal IntPtr Pointer
    {
      get
      {
        if (IsClosed) throw new ObjectDisposedException(GetType().Name);
        return handle;
      }
    }
  }

  /// <summary>A Vulkan device, which models are loaded on. What was made on it keeps it alive.</summary>
  public sealed unsafe class Device : Handle
  {
    public Device()
    {
      pumice_error error;
      var options = new pumice_device_options { struct_size = (UIntPtr)sizeof(pumice_device_options) };
      IntPtr made;
      C.Check(pumice_device_create(&options, &made, &error), &error);
      SetHandle(made);
    }

    public string Name => C.Text(pumice_device_name(Pointer));

    protected override bool ReleaseHandle()
    {
      pumice_device_destroy(handle);
      return true;
    }
  }

  /// <summary>A model on a device: a GGUF file or a Hugging Face folder.</summary>
  public sealed unsafe class Model : Handle
  {
    public Model(Device device, string path)
    {
      pumice_error error;
      IntPtr made;
      fixed (byte* bytes = C.Bytes(path, "path"))
      {
        var source = new pumice_source { struct_size = (UIntPtr)sizeof(pumice_source), path = bytes };
        C.Check(pumice_model_load(device.Pointer, &source, null, &made, &error), &error);
      }
      SetHandle(made);
      GC.KeepAlive(device);
    }

    protected override bool ReleaseHandle()
    {
      pumice_model_destroy(handle);
      return true;
    }
  }

  /// <summary>How a text is generated. Zero, and null, are the defaults.</summary>
  public class Options
  {
    public uint MaxTokens;
    /// <summary>0: the most probable token each time.</summary>
    public float Temperature;
    public ulong Seed;
    /// <summary>The text is one of these.</summary>
    public string[] Choices;
    /// <summary>In place of the conversation so far.</summary>
    public bool NewConversation;
  }

  /// <summary>A conversation: one thread at a time uses it.</summary>
  public sealed unsafe class Session : Handle
  {
    // The library calls it while a text is generated, so it lives as long as the session.
    readonly pumice_event_function onEvent;
    Action<string> take;
    Exception failed;

    /// <summary>Memory for a conversation of at most so many tokens; 0: the model's own number of them.</summary>
    public Session(Model model, uint context = 0)
    {
      onEvent = OnEvent;
      pumice_error error;
      IntPtr made;
      var options = new pumice_session_options { struct_size = (UIntPtr)sizeof(pumice_session_options), context = context };
      options.on_event = Marshal.GetFunctionPointerForDelegate(onEvent);
      C.Check(pumice_session_create(model.Pointer, &options, &made, &error), &error);
      SetHandle(made);
      GC.KeepAlive(model);
    }

    // An exception cannot pass through C: it is kept, and ends the text.
    void OnEvent(void* user, pumice_event* @event)
    {
      try
      {
        string text = C.Text(@event->text);
        if (text.Length > 0 && failed == null && take != null) take(text);
      }
      catch (Exception exception)
      {
        failed = exception;
        pumice_work_cancel(pumice_session_work(handle));
      }
    }

    /// <summary>Adds a text to the conversation, and goes on with it. `piece` gets the text as it comes.</summary>
    public string Generate(string text, Options options = null, Action<string> piece = null)
    {
      options = options ?? new Options();
      pumice_error error;
      var sampling = new pumice_sampling { struct_size = (UIntPtr)sizeof(pumice_sampling), temperature = options.Temperature, seed = options.Seed };
      var form = new pumice_form { struct_size = (UIntPtr)sizeof(pumice_form) };
      var request = new pumice_request
      {
        struct_size = (UIntPtr)sizeof(pumice_request), max_tokens = options.MaxTokens, sampling = &sampling,
        new_conversation = (byte)(options.NewConversation ? 1 : 0)
      };
      using (var texts = new PinnedTexts())
      {
        int count = options.Choices == null ? 0 : options.Choices.Length;
        byte** choices = stackalloc byte*[count + 1];
        for (int i = 0; i < count; ++i) choices[i] = texts.Add(options.Choices[i], "Choices");
        form.choices = choices;
        form.choice_count = (UIntPtr)count;
        if (count > 0) request.form = &form;
        request.text = texts.Add(text, "text");
        C.Check(pumice_session_generate(Pointer, &request, &error), &error);
      }
      var whole = new StringBuilder();
      failed = null;
      take = part => { whole.Append(part); piece?.Invoke(part); };
      pumice_status status = pumice_session_run(Pointer, &error);
      take = null;
      if (failed != null) throw failed;
      C.Check(status, &error);
      GC.KeepAlive(this);
      return whole.ToString();
    }

    protected override bool ReleaseHandle()
    {
      pumice_session_destroy(handle);
      return true;
    }
  }
}
