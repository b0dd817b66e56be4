//! A custom adapter in one file: prompts and cancellation.
//!
//! ```sh
//! cargo run -p sabir-shell --example custom_adapter -- "one two three"                       # the log stays on this machine
//! WS_URL=ws://127.0.0.1:8080 cargo run -p sabir-shell --example custom_adapter               # prompts come from a hub
//! ```
//!
//! The adapter spells the words of its prompts one by one.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use sabir_core::event::{Final, Outcome, TextDelta};
use sabir_shell::adapter::{Adapter, AdapterContext, AgentInput, InputRejected, RunFuture};
use sabir_shell::session::{OnCrash, run};
use sabir_shell::uploader::DeliveryStatus;
use sabir_shell::{BearerToken, Hub, Redactor, SessionConfig, SessionId};
use sabir_store::Home;
use tokio::sync::{mpsc, watch};

/// Spells prompts.
struct Speller {
    cancelled: watch::Sender<bool>,
}

impl Adapter for Speller {
    fn name(&self) -> &'static str {
        "speller"
    }

    fn accepts(&self, context: &AdapterContext, input: AgentInput<'_>) -> Result<(), InputRejected> {
        match input {
            AgentInput::Prompt { .. } if context.busy => Err(InputRejected("one prompt at a time".to_owned())),
            AgentInput::Prompt { .. } => Ok(()),
            AgentInput::Permission { .. } => Err(InputRejected("nothing was asked".to_owned())),
        }
    }

    fn on_input(&mut self, context: &AdapterContext, input: AgentInput<'_>) -> Result<Option<RunFuture>, InputRejected> {
        let AgentInput::Prompt { text, .. } = input else { return Ok(None) };
        let (context, text) = (context.clone(), text.to_owned());
        self.cancelled.send_replace(false);
        let mut cancelled = self.cancelled.subscribe();
        Ok(Some(Box::pin(async move {
            let mut run = context.begin_run("speller");
            for word in text.split_inclusive(' ') {
                run.emit(TextDelta::new(word));
                let pause = tokio::time::sleep(Duration::from_millis(100));
                tokio::select! {
                    () = pause => {}
                    _ = cancelled.wait_for(|cancelled| *cancelled) => return run.end(Outcome::Cancelled, None),
                }
            }
            run.emit(Final::new(text.as_str()));
            run.end(Outcome::Completed, None)
        })))
    }

    fn on_cancel(&mut self, _: &AdapterContext, _: Option<&str>) {
        self.cancelled.send_replace(true);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = std::env::args().nth(1);
    let session: SessionId = "custom-adapter".parse()?;
    let token = std::env::var("AUTH_TOKEN").ok().map(|token| BearerToken::new(&token)).transpose()?;
    let hub = std::env::var("WS_URL").ok().map(|address| Hub::new(&address, &session, token)).transpose()?;
    let config = SessionConfig {
        home: Home::find()?,
        redactor: Arc::new(Redactor::new(sabir_store::meta::secrets(std::env::vars()))?),
        options: sabir_core::export::Options::default(),
        wait: prompt.as_ref().map(|_| Duration::ZERO),
        flush: Duration::from_secs(10),
        on_crash: OnCrash::Report,
        status: watch::Sender::new(DeliveryStatus::default()),
        session,
        hub,
        sink: None,
        files: None,
        prompt,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (_stop, stopped) = mpsc::channel(1);
    let report = runtime.block_on(run(config, &mut Speller { cancelled: watch::Sender::new(false) }, stopped))?;
    println!("{report:?}");
    Ok(())
}
