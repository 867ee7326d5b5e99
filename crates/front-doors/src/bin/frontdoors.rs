//! Runs the matrix of front doors and writes the table of verdicts.

use clap::Parser;
use futures_util::{StreamExt as _, stream};
use std::{fs, path::PathBuf, process::ExitCode, sync::Arc};
use tenure_front_doors::matrix::{Lane, Outcome, Row, agrees, rows, table};
use tokio::sync::Mutex;

/// Runs every front door of the matrix and compares the verdicts with what they have to be.
#[derive(Debug, Parser)]
struct Arguments {
    /// Write the table to this file
    #[arg(long)]
    write: Option<PathBuf>,
    /// Fail if the table in this file shows other verdicts
    #[arg(long)]
    check: Option<PathBuf>,
    /// Only rows whose title contains this
    #[arg(long)]
    only: Option<String>,
    /// How many doors are examined at the same time
    #[arg(long, default_value_t = 8)]
    lanes: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let wanted = |row: &Row| arguments.only.as_ref().is_none_or(|text| row.title().contains(text));
    let rows: Vec<Row> = rows().into_iter().filter(wanted).collect();
    let lanes: Vec<_> = (0..arguments.lanes.max(1)).map(|_| Arc::new(Mutex::new(Lane::start()))).collect();
    let (total, count) = (rows.len(), lanes.len());
    let results: Vec<(Row, Outcome)> = stream::iter(rows.into_iter().enumerate())
        .map(|(number, row)| {
            let lane = Arc::clone(&lanes[number % count]);
            async move {
                let outcome = row.run(&*lane.lock().await).await;
                report(&row, &outcome);
                (row, outcome)
            }
        })
        .buffered(count)
        .collect()
        .await;
    let wrong = results.iter().filter(|(row, outcome)| is_wrong(row, outcome)).count();
    println!("{total} rows, {wrong} wrong");
    let page = table(&results);
    if let Some(file) = &arguments.write {
        fs::write(file, &page).expect("the table is written");
    }
    let mut failed = wrong > 0 || total == 0;
    if let Some(file) = &arguments.check {
        let shown = fs::read_to_string(file).expect("the table is read");
        if let Err(missing) = agrees(&shown, &results) {
            eprintln!("{} shows other rows; run `just frontdoors`. Not in it:", file.display());
            eprintln!("{}", missing.join("\n"));
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn is_wrong(row: &Row, outcome: &Outcome) -> bool {
    row.expected != outcome.verdict || !outcome.left.is_empty()
}

fn report(row: &Row, outcome: &Outcome) {
    let ms = outcome.took.as_millis();
    let (verdict, decided) = (outcome.verdict, &outcome.decided);
    println!("{verdict:<11} {decided:<10} {ms:>6} ms  {}", row.title());
    if is_wrong(row, outcome) {
        println!("  WRONG: expected {}; {}; left {:?}", row.expected, outcome.because, outcome.left);
    }
}
