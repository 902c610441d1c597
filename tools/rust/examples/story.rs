//! Tells a story.   cargo run --example story -- MODEL "Once upon a time"
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: story MODEL [PROMPT]")?;
    let prompt = arguments.next().unwrap_or_else(|| "Once upon a time".into());
    let device = pumice::Device::new()?;
    let model = pumice::Model::load(&device, &path)?;
    let mut session = model.session(256)?;
    print!("{prompt}");
    session.generate(&prompt, &pumice::Options { max_tokens: 60, ..Default::default() }, |piece| {
        print!("{piece}");
        let _ = std::io::stdout().flush();
    })?;
    println!();
    Ok(())
}
