//! The binary: runs each worker whose feature is compiled in *and* whose toggle is on.

/// `println!` for a reader that may leave.
macro_rules! say {
    ($($line:tt)*) => {
        $crate::exit::print_line(format_args!($($line)*))
    };
}

mod cli;
mod commands;
mod config;
mod demo;
mod exit;
mod http;
mod logging;
mod registry;
mod run;
mod same_database;
mod telemetry;

use clap::Parser as _;
use cli::{Cli, Command};
use exit::Failure;
use std::process::ExitCode;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    // Usage errors exit with 2, as configuration errors do.
    let cli = Cli::parse();
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::Other(format!("starting the runtime: {error}")).report(),
    };
    let result = runtime.block_on(dispatch(cli));
    // Nothing that is still running may keep the process: leases are handed over, or their session ends.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn dispatch(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Workers(output) => commands::workers::show(output),
        Command::Migrate { print: true } => {
            commands::migrate::print();
            Ok(())
        }
        Command::CheckConfig => commands::check_config::show(&config::load(&cli.config)?),
        Command::Demo(options) => demo::run(&options).await,
        Command::Run { no_migrate } => run::run(config::load(&cli.config)?.settings, no_migrate).await,
        command => {
            let databases = config::load(&cli.config)?.settings.databases()?;
            match command {
                Command::Migrate { .. } => commands::migrate::apply(&databases).await,
                Command::Doctor(output) => commands::doctor::examine(&databases, output).await,
                Command::Status(output) => commands::status::show(&databases, output).await,
                Command::Resign { role, timeout } => commands::resign::ask(&databases, &role, timeout).await,
                Command::Enqueue(job) => commands::enqueue::add(&databases, job).await,
                Command::Jobs { action, output } => commands::jobs::act(&databases, action, output).await,
                Command::Schedules(output) => commands::ledgers::schedules(&databases, output).await,
                Command::Sweeps(output) => commands::ledgers::sweeps(&databases, output).await,
                Command::Workers(_) | Command::CheckConfig | Command::Demo(_) | Command::Run { .. } => Ok(()),
            }
        }
    }
}
