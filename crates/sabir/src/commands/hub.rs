//! `sabir hub`: keeps the logs of shells and shows them.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sabir_core::time::Timestamp;
use sabir_hub::audit::{AuditEntry, AuditLog};
use sabir_hub::auth::token::Token;
use sabir_hub::store::TokenStore;
use sabir_hub::store::sqlite::SqliteStore;
use sabir_hub::tls::Certificates;
use sabir_hub::{Limits, Settings, now};
use sabir_run::signals::Signals;
use sabir_shell::is_loopback;
use sabir_store::Home;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cli::hub::{HubArguments, HubCommand, NewTokenArguments, TokenCommand, VerifyArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::json::{Out, object};
use crate::print::progress::Progress;
use crate::print::{self, table};

/// Who changes tokens here, in the audit log.
const CLI: &str = "cli";

pub(crate) fn run(arguments: &HubArguments) -> Result<Exit, Failure> {
    let folder = folder(arguments.data.data.as_deref())?;
    match &arguments.command {
        None => {
            check(arguments)?;
            runtime()?.block_on(serve(arguments, &folder))
        }
        Some(HubCommand::Token(arguments)) => {
            let log = SqliteStore::open_unlocked(&folder).map_err(|error| unusable(&folder, &error))?;
            let audit = AuditLog::open_unlocked(&folder);
            runtime()?.block_on(token(&log, &audit, &arguments.command))
        }
        Some(HubCommand::Verify(arguments)) => verify(&folder, arguments),
    }
}

fn verify(folder: &Path, arguments: &VerifyArguments) -> Result<Exit, Failure> {
    let mut progress = Progress::new("checking messages");
    let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let found =
        sabir_hub::store::sqlite::verify(folder, arguments.repair, &mut |done, all| progress.show(count(done), count(all)));
    progress.end();
    let found = found.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::ResourceBusy => "stop the hub first",
            _ => "--data names the folder of a hub",
        };
        Failure::io(format_args!("can't check {}", folder.display()), &error).hint(hint)
    })?;
    let exit = if found.is_intact() { Exit::Completed } else { Exit::Failed };
    if arguments.json {
        let mut out = Out::default();
        object(&found, out.buffer())?;
        out.write()?;
        return Ok(exit);
    }
    let rows = found.problems.iter().map(|problem| {
        let session = problem.session.as_ref().map(|session| session.as_str().to_owned());
        let messages =
            problem.messages.map(|[first, last]| if first == last { first.to_string() } else { format!("{first}-{last}") });
        vec![session.unwrap_or_default(), messages.unwrap_or_default(), problem.what.clone()]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        table::print(&["SESSION", "MESSAGES", "DAMAGE"], &rows)?;
    }
    if found.more_problems > 0 {
        print::note(&format!("{} more problems are not listed", found.more_problems));
    }
    found.repaired.iter().for_each(|what| print::note(&format!("repaired: {what}")));
    let checked = format!("{} messages of {} sessions were checked", found.messages, found.sessions);
    match (found.is_intact(), arguments.repair) {
        (true, _) => print::note(&format!("{checked}; no damage found")),
        (false, true) => print::warning(&format!("{checked}; {} messages are lost", found.damaged_messages)),
        (false, false) => {
            print::warning(&format!("{checked}; {} messages are damaged", found.damaged_messages));
            print::hint("stop the hub and add --repair to rebuild what can be rebuilt; messages come back from a backup alone");
        }
    }
    if found.without_checksum > 0 {
        print::note(&format!("{} messages were written before there were checksums; they can be read", found.without_checksum));
    }
    Ok(exit)
}

fn folder(given: Option<&Path>) -> Result<PathBuf, Failure> {
    match given {
        Some(folder) => std::path::absolute(folder).map_err(|error| unusable(folder, &error)),
        None => {
            let home = Home::find().map_err(|trouble| Failure::usage(trouble.what).hint("--data names a folder"))?;
            Ok(home.hub())
        }
    }
}

fn unusable(folder: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::ResourceBusy => "stop the other hub, or give this one another folder with --data",
        _ => "--data names another folder",
    };
    Failure::io(format_args!("can't keep anything in {}", folder.display()), error).hint(hint)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::io("can't start", &error))
}

/// Nothing is open by accident.
fn check(arguments: &HubArguments) -> Result<(), Failure> {
    if arguments.listen.ip().is_loopback() || arguments.i_know_this_is_open {
        return Ok(());
    }
    let why = if arguments.open {
        "nobody would need a token"
    } else if arguments.tls_cert.is_none() {
        "tokens and logs would go over the network for everybody to read"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("{} can be reached from other machines, and {why}", arguments.listen))
        .hint("give --tls-cert and --tls-key and leave out --open; or say --i-know-this-is-open"))
}

async fn serve(arguments: &HubArguments, folder: &Path) -> Result<Exit, Failure> {
    let tls = match arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref()) {
        Some((certificate, key)) => {
            Some(Certificates::open(certificate, key).map_err(|error| Failure::usage(format!("no TLS: {error}")))?)
        }
        None => None,
    };
    let log = SqliteStore::open(folder).map_err(|error| unusable(folder, &error))?;
    if arguments.max_size.is_some() {
        log.set_limit(arguments.max_size).await.map_err(|trouble| unusable(folder, &io::Error::other(trouble)))?;
    }
    let tokens = log.tokens().await.map_err(|trouble| unusable(folder, &io::Error::other(trouble)))?;
    let usable = tokens.iter().filter(|token| token.is_valid(now())).count();
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.map_err(|error| {
        Failure::io(format_args!("can't listen on {}", arguments.listen), &error).hint("--listen names another address")
    })?;
    let address = listener.local_addr().map_err(|error| Failure::io("can't listen", &error))?;
    let signals = Signals::new().ok_or_else(|| Failure::io("can't start", &io::Error::other("signals can't be heard")))?;
    let (notes, mut heard) = mpsc::channel(16);
    let limits = Limits {
        connections: arguments.max_connections,
        subscriptions: arguments.max_watchers,
        requests_per_second: arguments.max_rate,
        // It is told to shells in whole seconds.
        heartbeat: arguments.heartbeat.max(Duration::from_secs(1)),
        ..Limits::default()
    };
    let settings = Settings {
        folder: folder.to_path_buf(),
        allow_anonymous: arguments.open,
        hosts: arguments.host.clone(),
        origins: arguments.origin.clone(),
        limits,
        one_time_tokens: None,
        diagnostics: notes,
    };
    welcome(address, tls.is_some(), arguments, folder, usable);
    let stop = async move {
        let mut signals = signals;
        signals.next().await;
        print::note("the hub stops; shells keep what it has not acknowledged");
    };
    let talk = tokio::spawn(async move {
        while let Some(note) = heard.recv().await {
            print::warning(&note);
        }
    });
    let served = sabir_hub::serve(listener, Arc::new(log), settings, tls, stop).await;
    talk.abort();
    served.map_err(|error| unusable(folder, &error))?;
    Ok(Exit::Completed)
}

/// Says where the hub is, and how to use it.
fn welcome(address: SocketAddr, tls: bool, arguments: &HubArguments, folder: &Path, usable: usize) {
    let (ws, http) = if tls { ("wss", "https") } else { ("ws", "http") };
    let host = arguments.host.first().map_or_else(|| address.ip().to_string(), Clone::clone);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let at = format!("{host}:{}", address.port());
    print::note(&format!("the hub listens on {http}://{at} and keeps everything in {}", folder.display()));
    // A shell sends its token unencrypted to another machine only when it is told so.
    let token = match (arguments.open, tls || is_loopback(&host)) {
        (true, _) => "",
        (false, true) => "AUTH_TOKEN=… ",
        (false, false) => "AUTH_TOKEN=… WS_INSECURE=1 ",
    };
    print::note(&format!("a shell connects by {token}WS_URL={ws}://{at} SESSION_ID=… sabir shell"));
    if arguments.open {
        print::note("nobody needs a token");
    } else if usable == 0 {
        print::hint("there is no token yet: sabir hub token new --scope operate, and --scope runner:SESSION for a shell");
    }
}

async fn token(log: &dyn TokenStore, audit: &AuditLog, command: &TokenCommand) -> Result<Exit, Failure> {
    let wrong = |trouble: sabir_hub::StoreError| Failure::io("can't reach the tokens", &io::Error::other(trouble));
    match command {
        TokenCommand::New(arguments) => {
            let (token, whole) = made(arguments)?;
            log.add_token(token.clone()).await.map_err(wrong)?;
            audited(audit.append_blocking(&AuditEntry::for_token(CLI, "token_created", &token)));
            let id = token.id;
            let mut out = Out::default();
            let _ = writeln!(out.buffer(), "{whole}");
            out.write()?;
            print::note(&format!("this is token {id}; it is not shown again"));
        }
        TokenCommand::List(arguments) => list(log.tokens().await.map_err(wrong)?, arguments.json)?,
        TokenCommand::Revoke { id } => {
            if !log.revoke_token(id, now()).await.map_err(wrong)? {
                return Err(Failure::usage(format!("there is no token {id}")).hint("sabir hub token list"));
            }
            audited(audit.append_blocking(&AuditEntry {
                who: CLI,
                what: "token_revoked",
                token: Some(id),
                ..AuditEntry::default()
            }));
            print::note(&format!("token {id} is revoked; its connections end within a second or two"));
        }
    }
    Ok(Exit::Completed)
}

/// What can't be noted is done all the same, and said.
fn audited(written: io::Result<()>) {
    if let Err(error) = written {
        print::warning(&format!("the audit log could not be written: {error}"));
    }
}

fn made(arguments: &NewTokenArguments) -> Result<(Token, String), Failure> {
    let created = now();
    let expires = arguments.expires.map(|expires| {
        let millis = i64::try_from(expires.as_millis()).ok().and_then(|millis| created.as_millis().checked_add(millis));
        millis.and_then(Timestamp::from_millis).ok_or_else(|| Failure::usage("no token lasts that long"))
    });
    let made = Token::new(arguments.scope.clone(), arguments.note.clone(), created, expires.transpose()?);
    made.ok_or_else(|| Failure::io("can't make a token", &io::Error::other("the system has no randomness")))
}

/// A token in a list: not even its digest.
#[derive(Serialize)]
struct Listed {
    id: String,
    scopes: Vec<String>,
    note: Option<String>,
    created: Timestamp,
    expires: Option<Timestamp>,
    revoked: Option<Timestamp>,
    /// Whether it may be used.
    good: bool,
}

fn list(tokens: Vec<Token>, json: bool) -> Result<(), Failure> {
    let moment = now();
    let listed: Vec<Listed> = tokens
        .into_iter()
        .map(|token| Listed {
            good: token.is_valid(moment),
            id: token.id,
            scopes: token.scopes.iter().map(ToString::to_string).collect(),
            note: token.note,
            created: token.created,
            expires: token.expires,
            revoked: token.revoked,
        })
        .collect();
    if json {
        let mut out = Out::default();
        object(&listed, out.buffer())?;
        return out.write();
    }
    let state = |token: &Listed| match (token.revoked, token.expires) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) if token.good => format!("until {at}"),
        (None, Some(at)) => format!("ran out {at}"),
        (None, None) => "good".to_owned(),
    };
    let row =
        |token: &Listed| vec![token.id.clone(), token.scopes.join(" "), state(token), token.note.clone().unwrap_or_default()];
    table::print(&["ID", "SCOPE", "STATE", "NOTE"], &listed.iter().map(row).collect::<Vec<_>>())
}
