//! The whole path in one process: shells, a hub, the page.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sabir_core::event::Event;
use sabir_core::export::Options;
use sabir_hub::auth::token::{Scope, Token};
use sabir_hub::store::TokenStore as _;
use sabir_hub::store::sqlite::SqliteStore;
use sabir_hub::{Limits, OneTimeTokens, Settings, now};
use sabir_run::signals::Signals;
use sabir_shell::session::OnCrash;
use sabir_shell::uploader::DeliveryStatus;
use sabir_shell::{Redactor, SessionConfig, SessionId};
use sabir_store::Home;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use super::Recording;
use super::player::Player;
use super::screen::Screen;
use crate::cli::DemoArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print;
use crate::window::Window;

/// How long a shell waits at its end for the hub. Both are here, so that is long.
const FLUSH: Duration = Duration::from_secs(5);

pub(super) fn run(chosen: &[Recording], arguments: &DemoArguments) -> Result<Exit, Failure> {
    let folder = tempfile::Builder::new().prefix("sabir-demo-").tempdir();
    let folder = folder.map_err(|error| Failure::io("can't make a temporary folder", &error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("can't start", &error))?;
    // Shells are not sent from thread to thread.
    let played = runtime.block_on(LocalSet::new().run_until(all(chosen, arguments, folder.path())));
    runtime.shutdown_background();
    // Nothing is left behind, also when something went wrong.
    folder.close().map_err(|error| Failure::io("can't remove the temporary folder", &error))?;
    played
}

async fn all(chosen: &[Recording], arguments: &DemoArguments, folder: &Path) -> Result<Exit, Failure> {
    let wrong = |error: io::Error| Failure::io("can't start the hub of the demo", &error).hint("--no-page plays without one");
    let log = Arc::new(SqliteStore::open(folder).map_err(wrong)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(wrong)?;
    let at = listener.local_addr().map_err(wrong)?;
    let mut signals = Signals::new().ok_or_else(|| wrong(io::Error::other("signals can't be heard")))?;
    let tokens = OneTimeTokens::new(Scope::Operate);
    let settings = Settings {
        folder: folder.to_path_buf(),
        allow_anonymous: false,
        hosts: Vec::new(),
        origins: Vec::new(),
        limits: Limits::default(),
        one_time_tokens: Some(tokens.clone()),
        diagnostics: mpsc::channel(1).0,
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let hub = tokio::spawn(sabir_hub::serve(listener, Arc::clone(&log), settings, None, async {
        // Somebody who is gone asks for the end as well.
        let _ = stopped.await;
    }));
    let opened = tokens.redeemed();
    let window = Window { tokens, at };
    window.open(!arguments.no_open)?;
    let telling = tokio::spawn(window.keep_telling());

    let screen = Rc::new(RefCell::new(Screen::new(chosen.len())));
    let mut shells = Vec::new();
    let mut stops = Vec::new();
    for (place, recording) in chosen.iter().copied().enumerate() {
        let session: SessionId =
            format!("demo-{}", recording.agent).parse().map_err(|_| wrong(io::Error::other("no session")))?;
        let made = Token::new(vec![Scope::Runner(session.clone())], None, now(), None);
        let (kept, token) = made.ok_or_else(|| wrong(io::Error::other("the system has no randomness")))?;
        log.add_token(kept).await.map_err(|trouble| wrong(io::Error::other(trouble)))?;
        let token = sabir_shell::BearerToken::new(&token)?;
        let config = SessionConfig {
            home: Home::at(folder.join("shells")),
            hub: Some(sabir_shell::Hub::new(&format!("ws://{at}"), &session, Some(token))?),
            session,
            sink: None,
            files: None,
            redactor: Arc::new(Redactor::new([])?),
            options: Options { workspace: Some("demo".to_owned()), ..Options::default() },
            prompt: Some(recording.prompt.to_owned()),
            on_crash: OnCrash::Report,
            wait: Some(Duration::ZERO),
            flush: FLUSH,
            status: watch::Sender::new(DeliveryStatus::default()),
        };
        let heard = Rc::clone(&screen);
        let ear = Box::new(move |event: &Event<'_>| heard.borrow_mut().event(place, event));
        let (ask, asked) = mpsc::channel(4);
        stops.push(ask);
        let (speed, over) = (arguments.speed, Rc::clone(&screen));
        shells.push(tokio::task::spawn_local(async move {
            let mut player = Player::new(recording, speed, ear);
            let report = Box::pin(sabir_shell::session::run(config, &mut player, asked)).await;
            over.borrow_mut().end(place);
            report
        }));
    }
    let played = async {
        let mut failure = None;
        for shell in shells {
            match shell.await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => failure = Some(Failure::from(error)),
                Err(error) => failure = Some(Failure::io("a shell of the demo failed", &io::Error::other(error))),
            }
        }
        failure
    };
    let mut played = std::pin::pin!(played);
    let (mut failure, mut interrupted) = (None, false);
    tokio::select! {
        ended = &mut played => failure = ended,
        () = signals.next() => interrupted = true,
    }
    if interrupted {
        for stop in &stops {
            // A shell that is over needs no end.
            let _ = stop.try_send(());
        }
        failure = played.await;
    } else if failure.is_none() && (io::stdout().is_terminal() || io::stderr().is_terminal() || *opened.borrow() > 0) {
        // Without a terminal and with nobody who opened the web UI, there is nobody to press Ctrl-C.
        print::note("all runs ended; the web UI stays until Ctrl-C");
        signals.next().await;
    }
    let _ = stop.send(());
    // How the hub of a demo ends matters to nobody.
    let _ = hub.await;
    telling.abort();
    drop(log);
    let failure = failure.or_else(|| screen.borrow_mut().failure.take());
    match failure {
        Some(failure) => Err(failure),
        None if interrupted => Ok(Exit::Cancelled),
        None => Ok(Exit::Completed),
    }
}
