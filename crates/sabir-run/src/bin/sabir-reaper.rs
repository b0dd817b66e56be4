//! Standalone reaper, for programs whose `main` cannot call [`install`](sabir_run::reaper::install) first, such as tests.

fn main() -> std::process::ExitCode {
    sabir_run::reaper::install();
    // Not started as a reaper.
    std::process::ExitCode::from(2)
}
