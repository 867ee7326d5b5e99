//! Owns a private server until it is killed, for the test of what is left then.

use tenure_testkit::TestServer;

fn main() {
    let server = TestServer::start();
    let (pid, folder) = (server.private().pid(), server.private().folder());
    eprintln!("{}", serde_json::json!({ "event": "started", "pid": pid, "folder": folder }));
    loop {
        std::thread::park();
    }
}
