//! `sabir serve`: the page over what ran on this machine.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use sabir_hub::auth::token::Scope;
use sabir_hub::store::local::{LocalStore, Sources};
use sabir_hub::{Limits, OneTimeTokens, Settings};
use sabir_run::signals::Signals;
use sabir_store::Home;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cli::past::ServeArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::progress::Progress;
use crate::window::Window;
use crate::{past, print, when};

pub(crate) fn run(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let sources = Sources { places: past::places(), home: Home::find().ok(), zone: when::zone(None)? };
    let mut progress = Progress::new("reading logs");
    let log = LocalStore::open(sources, &mut |done, all| progress.show(done, all));
    progress.end();
    let log = log.map_err(|error| Failure::io("can't start", &error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("can't start", &error))?;
    let served = runtime.block_on(serve(arguments, log));
    // A session that is still being read is not waited for.
    runtime.shutdown_background();
    served
}

async fn serve(arguments: &ServeArguments, log: LocalStore) -> Result<Exit, Failure> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let listener = TcpListener::bind(wanted).await;
    let listener =
        listener.map_err(|error| Failure::io(format_args!("can't listen on {wanted}"), &error).hint("--port names another"))?;
    let at = listener.local_addr().map_err(|error| Failure::io("can't listen", &error))?;
    let signals = Signals::new().ok_or_else(|| Failure::io("can't start", &io::Error::other("signals can't be heard")))?;
    // What a hub writes beside its log; there is nothing in it that anybody wants later.
    let folder = tempfile::tempdir().map_err(|error| Failure::io("can't make a temporary folder", &error))?;
    let tokens = OneTimeTokens::new(Scope::Watch);
    let (notes, mut heard) = mpsc::channel(16);
    let settings = Settings {
        folder: folder.path().to_path_buf(),
        allow_anonymous: false,
        hosts: Vec::new(),
        origins: Vec::new(),
        limits: Limits::default(),
        one_time_tokens: Some(tokens.clone()),
        diagnostics: notes,
    };
    let window = Window { tokens, at };
    print::note(&match log.count() {
        0 => "no agent has logged anything here yet; what you run shows up by itself".to_owned(),
        1 => "1 session; Ctrl-C ends this".to_owned(),
        count => format!("{count} sessions; Ctrl-C ends this"),
    });
    window.open(!arguments.no_open)?;
    let telling = tokio::spawn(window.keep_telling());
    let talk = tokio::spawn(async move {
        while let Some(note) = heard.recv().await {
            print::warning(&note);
        }
    });
    let stop = async move {
        let mut signals = signals;
        signals.next().await;
    };
    let served = sabir_hub::serve(listener, Arc::new(log), settings, None, stop).await;
    telling.abort();
    talk.abort();
    served.map_err(|error| Failure::io("serving the page failed", &error))?;
    Ok(Exit::Completed)
}
