//! What users type about the hub.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use sabir_hub::auth::token::Scope;

/// Keep the logs of many shells, show them live, and pass orders on.
///
/// Listens on this machine alone unless told otherwise. Everybody needs a token, which `sabir hub token new` makes; with
/// `--open` nobody does. Ends in good order on Ctrl-C.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct HubArguments {
    #[command(subcommand)]
    pub(crate) command: Option<HubCommand>,

    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7421")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    pub(crate) data: DataArguments,

    /// Keep no more than about so much, like 20GB; beyond that nothing is taken until there is room.
    #[arg(long, value_name = "SIZE", value_parser = crate::commands::prune::size)]
    pub(crate) max_size: Option<u64>,

    /// Nobody needs a token.
    #[arg(long)]
    pub(crate) open: bool,

    /// A certificate, with those that lead to one that browsers know (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// A name by which the hub is called, beside localhost. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,

    /// The origin of a page that may use the hub, like <https://example.org>. May be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) origin: Vec<String>,

    /// How many watch at the same time.
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub(crate) max_watchers: usize,

    /// How many are connected at the same time.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_connections: usize,

    /// How many requests a second one token may send.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) max_rate: u32,

    /// How often a shell and the hub tell each other that they are there, like 5s. Who hears nothing for three times as long
    /// gives the connection up.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = crate::start::duration)]
    pub(crate) heartbeat: Duration,

    /// Listen beyond this machine although there is no TLS, or nobody needs a token.
    #[arg(long)]
    pub(crate) i_know_this_is_open: bool,
}

#[derive(Args)]
pub(crate) struct DataArguments {
    /// The folder that everything is kept in [default: `hub` in Sabir's own].
    #[arg(long, value_name = "FOLDER", global = true)]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum HubCommand {
    /// Make, list and revoke tokens. The hub need not be stopped for it.
    Token(TokenArguments),
    Verify(VerifyArguments),
}

/// Check the data of a hub for damage.
///
/// Compares every session and message with its checksum. The hub may be running, except with `--repair`. Exits with 1 if
/// anything is damaged.
#[derive(Args)]
#[command(after_help = "Examples:
  sabir hub verify                           # the default folder
  sabir hub verify --data /srv/hub --json    # what is damaged, for programs
  sabir hub verify --data /srv/hub --repair  # stop the hub first")]
pub(crate) struct VerifyArguments {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Rebuild what can be rebuilt from messages: indexes, overviews, the numbers of last messages.
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    New(NewTokenArguments),
    List(ListTokensArguments),
    /// End a token, and the connections that were made with it.
    Revoke {
        /// The id of the token.
        id: String,
    },
}

/// Make a token and print it, this once.
#[derive(Args)]
pub(crate) struct NewTokenArguments {
    /// What it is for: `runner:SESSION` writes that session, `watch` sees all of them, `operate` also gives orders. May be
    /// repeated.
    #[arg(long, value_name = "SCOPE", required = true)]
    pub(crate) scope: Vec<Scope>,

    /// When it runs out, like 12h or 30d [default: never].
    #[arg(long, value_name = "TIME", value_parser = crate::start::duration)]
    pub(crate) expires: Option<Duration>,

    /// Who has it, for the list.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// List the tokens, not the secrets.
#[derive(Args)]
pub(crate) struct ListTokensArguments {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
