//! Pumice: transformer models on any Vulkan 1.2 device. A page that is safe, over [`sys`], which is everything that pumice.h declares.
//!
//! ```no_run
//! let device = pumice::Device::new()?;
//! let model = pumice::Model::load(&device, "model.gguf")?;
//! let mut session = model.session(512)?;
//! session.generate("Once upon a time", &pumice::Options { max_tokens: 40, ..Default::default() }, |piece| print!("{piece}"))?;
//! # Ok::<(), pumice::Error>(())
//! ```
use std::any::Any;
use std::ffi::{c_void, CStr, CString};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;

/// The C interface, generated from pumice.h.
#[allow(non_camel_case_types)]
pub mod sys {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

/// Why something failed: a status of the C interface to branch on, and a sentence.
#[derive(Debug)]
pub struct Error {
    pub status: sys::pumice_status,
    pub message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Calls a function whose last parameter is an error.
fn call(function: impl FnOnce(*mut sys::pumice_error) -> sys::pumice_status) -> Result<(), Error> {
    let mut error = sys::pumice_error::default();
    match function(&mut error) {
        sys::PUMICE_OK => Ok(()),
        status => {
            let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
            Err(Error { status, message: message.to_string_lossy().into_owned() })
        }
    }
}

fn c_text(text: &str, name: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|error| Error {
        status: sys::PUMICE_INVALID_ARGUMENT,
        message: format!("{name} has the character NUL at byte {}", error.nul_position()),
    })
}

/// A Vulkan device, which models are loaded on. What was made on it keeps it alive.
pub struct Device(*mut sys::pumice_device);
unsafe impl Send for Device {}
unsafe impl Sync for Device {}

impl Device {
    /// The best one.
    pub fn new() -> Result<Device, Error> {
        let options = sys::pumice_device_options::default();
        let mut made = ptr::null_mut();
        call(|error| unsafe { sys::pumice_device_create(&options, &mut made, error) })?;
        Ok(Device(made))
    }

    pub fn name(&self) -> String {
        unsafe { CStr::from_ptr(sys::pumice_device_name(self.0)) }.to_string_lossy().into_owned()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        unsafe { sys::pumice_device_destroy(self.0) }
    }
}

/// A model on a device: a GGUF file or a Hugging Face folder.
pub struct Model(*mut sys::pumice_model);
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Model, Error> {
        let path = c_text(&path.as_ref().to_string_lossy(), "path")?;
        let source = sys::pumice_source { path: path.as_ptr(), ..Default::default() };
        let mut made = ptr::null_mut();
        call(|error| unsafe { sys::pumice_model_load(device.0, &source, ptr::null(), &mut made, error) })?;
        Ok(Model(made))
    }

    /// Memory for one conversation of at most `context` tokens; 0: the model's own number of them.
    pub fn session(&self, context: u32) -> Result<Session, Error> {
        // The library calls on_event with this for as long as the session lives: it does not move.
        let sink = Box::into_raw(Box::new(Sink { work: ptr::null_mut(), take: None, panic: None }));
        let options = sys::pumice_session_options {
            context,
            on_event: Some(on_event),
            user: sink as *mut c_void,
            ..Default::default()
        };
        let mut made = ptr::null_mut();
        let created = call(|error| unsafe { sys::pumice_session_create(self.0, &options, &mut made, error) });
        let session = Session { handle: made, sink }; // frees the sink where nothing was made
        created?;
        unsafe { (*sink).work = sys::pumice_session_work(made) };
        Ok(session)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { sys::pumice_model_destroy(self.0) }
    }
}

/// How a text is generated. Zero, and an empty list, are the defaults.
#[derive(Default)]
pub struct Options<'a> {
    pub max_tokens: u32,
    /// 0: the most probable token each time.
    pub temperature: f32,
    pub seed: u64,
    /// The text is one of these.
    pub choices: &'a [&'a str],
    /// In place of the conversation so far.
    pub new_conversation: bool,
}

/// Where events of a session go while it runs.
struct Sink {
    work: *mut sys::pumice_work,
    take: Option<*mut dyn FnMut(&str)>,
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn on_event(user: *mut c_void, event: *const sys::pumice_event) {
    let sink = user as *mut Sink;
    let (Some(take), None) = ((*sink).take, &(*sink).panic) else { return };
    let text = CStr::from_ptr((*event).text).to_string_lossy();
    if text.is_empty() {
        return;
    }
    // A panic must not go through the library: the text ends, and then the panic goes on.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (*take)(&text))) {
        (*sink).panic = Some(panic);
        sys::pumice_work_cancel((*sink).work);
    }
}

/// A conversation: one thread at a time uses it.
pub struct Session {
    handle: *mut sys::pumice_session,
    sink: *mut Sink,
}
unsafe impl Send for Session {}

impl Session {
    /// Adds a text to the conversation, and goes on with it: `piece` gets the text as it comes.
    pub fn generate(&mut self, text: &str, options: &Options, mut piece: impl FnMut(&str)) -> Result<String, Error> {
        let text = c_text(text, "text")?;
        let choices = options.choices.iter().map(|each| c_text(each, "choices")).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<_> = choices.iter().map(|each| each.as_ptr()).collect();
        let form = sys::pumice_form { choices: pointers.as_ptr(), choice_count: pointers.len(), ..Default::default() };
        let sampling =
            sys::pumice_sampling { temperature: options.temperature, seed: options.seed, ..Default::default() };
        let request = sys::pumice_request {
            text: text.as_ptr(),
            max_tokens: options.max_tokens,
            new_conversation: options.new_conversation,
            sampling: &sampling,
            form: if pointers.is_empty() { ptr::null() } else { &form },
            ..Default::default()
        };
        call(|error| unsafe { sys::pumice_session_generate(self.handle, &request, error) })?;
        let mut whole = String::new();
        let mut take = |part: &str| {
            whole.push_str(part);
            piece(part)
        };
        let take: &mut dyn FnMut(&str) = &mut take;
        // It does not outlive this call.
        unsafe { (*self.sink).take = Some(std::mem::transmute::<&mut dyn FnMut(&str), *mut dyn FnMut(&str)>(take)) };
        let done = call(|error| unsafe { sys::pumice_session_run(self.handle, error) });
        unsafe { (*self.sink).take = None };
        if let Some(panic) = unsafe { (*self.sink).panic.take() } {
            resume_unwind(panic);
        }
        done.map(|()| whole)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        unsafe {
            sys::pumice_session_destroy(self.handle); // which may be null
            drop(Box::from_raw(self.sink));
        }
    }
}
