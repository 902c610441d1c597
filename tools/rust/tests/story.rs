//! The shipped model, as a program in Rust uses it.
use pumice::{sys, Device, Model, Options};

#[test]
fn a_story() {
    let device = Device::new().unwrap();
    assert!(!device.name().is_empty());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/pretrained/stories-2m.gguf");
    let model = Model::load(&device, path).unwrap();
    drop(device); // the model keeps it
    let mut session = model.session(128).unwrap();
    let options = Options { max_tokens: 8, new_conversation: true, ..Default::default() };
    let mut pieces = Vec::new();
    let whole = session.generate("Once upon a time", &options, |piece| pieces.push(piece.to_string())).unwrap();
    assert!(pieces.len() > 3 && pieces.concat() == whole);
    assert_eq!(session.generate("Once upon a time", &options, |_| ()).unwrap(), whole);

    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.generate("Once upon a time", &options, |_| panic!("of the program"))
    }));
    assert_eq!(panics.unwrap_err().downcast_ref::<&str>(), Some(&"of the program"));
    assert_eq!(session.generate("Once upon a time", &options, |_| ()).unwrap(), whole);

    let choices = Options { choices: &["happy", "a dog"], new_conversation: true, ..Default::default() };
    let chosen = session.generate("The cat is", &choices, |_| ()).unwrap();
    assert!(["happy", "a dog"].contains(&chosen.as_str()));

    let wrong = session.generate("Once", &Options { temperature: -1.0, ..Default::default() }, |_| ()).unwrap_err();
    assert_eq!(wrong.status, sys::PUMICE_INVALID_ARGUMENT);
    assert!(wrong.message.contains("temperature is -1"));
    assert!(session.generate("a\0b", &options, |_| ()).is_err());
    let missing = Model::load(&Device::new().unwrap(), "nowhere.gguf").err().unwrap();
    assert_eq!(missing.status, sys::PUMICE_NOT_FOUND);
}
