//! The `sabir` command.

mod cli;
mod commands;
mod exit;
mod failure;
mod hint;
mod input;
mod journal;
mod output;
mod pace;
mod past;
mod print;
mod reason;
mod result;
mod start;
mod target;
mod when;
mod window;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};
use exit::Exit;
use failure::Failure;

fn main() -> ExitCode {
    // In a process that was started to reap a run, this does not return.
    sabir_run::reaper::install();
    match commands::completions::answered() {
        Ok(false) => {}
        Ok(true) => return Exit::Completed.into(),
        Err(error) => return print::usage(error),
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return print::usage(error),
    };
    match run(cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) if failure.is_closed_pipe() => Exit::Completed.into(),
        Err(failure) => {
            print::failure(&failure);
            failure.exit.into()
        }
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Batch(arguments) => commands::batch::run(&arguments),
        Command::Shell(arguments) => commands::shell::run(&arguments),
        Command::Ls(arguments) => commands::ls::run(&arguments),
        Command::Show(arguments) => commands::show::run(&arguments),
        Command::Search(arguments) => commands::search::run(&arguments),
        Command::Tail(arguments) => commands::tail::run(&arguments),
        Command::Replay(arguments) => commands::replay::run(&arguments),
        Command::Export(arguments) => commands::replay::export(&arguments),
        Command::Jobs(arguments) => commands::jobs::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Tui(arguments) => commands::tui::run(arguments),
        Command::Query(arguments) => commands::query::run(&arguments),
        Command::Usage(arguments) => commands::usage::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Drift(arguments) => commands::drift::run(&arguments),
        Command::Parse(arguments) => commands::parse::run(&arguments),
        Command::Agents(arguments) => commands::agents::run(&arguments),
        Command::Prune(arguments) => commands::prune::run(&arguments),
        Command::Hub(arguments) => commands::hub::run(&arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
        Command::AgentLoop(arguments) => commands::agent_loop::run(arguments),
        Command::Man => commands::completions::man(),
    }
}
