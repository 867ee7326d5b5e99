//! A real PostgreSQL server for one test.

use crate::fetched;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, postgres::PgPoolOptions};
use std::path::{Path, PathBuf};
use tenure_private_postgres::{Binaries, PrivatePostgres, StopMode};

/// A server of its own for one test. Superuser `postgres`, database `postgres`, no password.
#[derive(Debug)]
pub struct TestServer(PrivatePostgres);

impl TestServer {
    /// A server with few connections and the defaults otherwise.
    ///
    /// # Panics
    ///
    /// When it can't be had, with what to install.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server that nobody could take for another one: with its own `initdb`, thus its own system
    /// identifier, which [`TestServer::start`] shares with all others. Takes seconds.
    ///
    /// # Panics
    ///
    /// As [`TestServer::start`].
    pub fn start_unrelated() -> Self {
        Self(PrivatePostgres::builder(binaries()).start().unwrap_or_else(|error| panic!("{}", chain(&error))))
    }

    /// A server with these parameters.
    ///
    /// # Panics
    ///
    /// As [`TestServer::start`].
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut builder = PrivatePostgres::builder(binaries()).template_cache(templates());
        for (name, value) in settings {
            builder = builder.setting(name, value);
        }
        Self(builder.start().unwrap_or_else(|error| panic!("{}", chain(&error))))
    }

    /// A server of another major version, 14 to 18.
    ///
    /// # Panics
    ///
    /// As [`TestServer::start`].
    pub fn start_major(major: u32) -> Self {
        let folder = fetched::folder(&format!("postgresql-{major}")).join("bin");
        let builder = PrivatePostgres::builder(Binaries::in_folder(folder)).template_cache(templates());
        Self(builder.start().unwrap_or_else(|error| panic!("{}", chain(&error))))
    }

    /// A hot standby of this server, streaming from it, with the same parameters.
    ///
    /// # Panics
    ///
    /// As [`TestServer::start`].
    #[must_use]
    pub fn start_standby(&self) -> Self {
        let started = PrivatePostgres::builder(binaries()).start_standby_of(&self.0);
        Self(started.unwrap_or_else(|error| panic!("{}", chain(&error))))
    }

    /// Makes a standby the primary.
    ///
    /// # Panics
    ///
    /// When it doesn't become one.
    pub fn promote(&self) {
        self.0.promote().unwrap_or_else(|error| panic!("{}", chain(&error)));
    }

    /// URL for the superuser.
    pub fn url(&self) -> String {
        self.0.url("postgres")
    }

    /// URL of another database, for the superuser.
    pub fn url_of(&self, database: &str) -> String {
        self.0.url(database)
    }

    /// URL for another user, both of letters and digits. The server doesn't ask for the password.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/postgres", self.0.port())
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// A pool for the superuser.
    ///
    /// # Panics
    ///
    /// When the server doesn't answer.
    pub async fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(8).connect(&self.url()).await.expect("the server answers")
    }

    /// Makes an ordinary login role, without any rights of its own. Both of letters and digits.
    ///
    /// # Panics
    ///
    /// When the server refuses.
    pub async fn create_role(&self, name: &str, password: &str) {
        self.run(format!("create role \"{name}\" login password '{password}'")).await;
    }

    /// Makes an empty database and returns its URL, for the superuser. A name of letters and digits.
    ///
    /// # Panics
    ///
    /// When the server refuses.
    pub async fn create_database(&self, name: &str) -> String {
        self.run(format!("create database \"{name}\"")).await;
        self.url_of(name)
    }

    async fn run(&self, sql: String) {
        let mut connection = PgConnection::connect(&self.url()).await.expect("the server answers");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.expect("the server agrees");
        connection.close().await.expect("the session ends");
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        self.0.log()
    }

    /// Stops the server and keeps its data.
    pub fn stop(&mut self, mode: StopMode) {
        self.0.stop(mode);
    }

    /// Starts a stopped server again, on the same port.
    ///
    /// # Panics
    ///
    /// When it doesn't start.
    pub fn start_again(&mut self) {
        self.0.start().unwrap_or_else(|error| panic!("{}", chain(&error)));
    }

    /// Stops the server and starts it again, with its data and on its port.
    ///
    /// # Panics
    ///
    /// When it doesn't start.
    pub fn restart(&mut self, mode: StopMode) {
        self.0.restart(mode).unwrap_or_else(|error| panic!("{}", chain(&error)));
    }

    /// The private server itself.
    pub fn private(&self) -> &PrivatePostgres {
        &self.0
    }
}

fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/private-postgres")
}

fn binaries() -> Binaries {
    Binaries::find().unwrap_or_else(|error| panic!("{error}"))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_supported_version_answers() {
        for major in 14..=18 {
            let server = TestServer::start_major(major);
            let version: String =
                sqlx::query_scalar("select version()").fetch_one(&server.pool().await).await.unwrap();
            assert!(version.starts_with(&format!("PostgreSQL {major}.")), "{version}");
        }
    }
}
