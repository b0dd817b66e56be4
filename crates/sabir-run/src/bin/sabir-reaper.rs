//! A reaper as a program of its own, for programs whose `main` can't begin with [`install`](sabir_run::reaper::install), such as tests.

fn main() -> std::process::ExitCode {
    sabir_run::reaper::install();
    // Nobody starts it by hand.
    std::process::ExitCode::from(2)
}
