//! The shell uses the keys of S3 that its environment has.

#[allow(dead_code)]
#[path = "../../../rowmill/tests/it/remote_files/server.rs"]
mod server;

use std::process::Command;

use server::{Manners, TestServer};

use crate::SHELL;

#[test]
fn keys_of_the_environment_open_buckets() {
    let server = TestServer::start();
    server.put("bucket/in/a.csv", "a,b\n1,x\n2,y\n");
    server.behave(Manners { key_id: Some("FROMENV".to_owned()), ..Manners::default() });
    let run = |variables: &[(&str, &str)], sql: &str| {
        let mut shell = Command::new(SHELL);
        // Variables of the machine must not decide.
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")).for_each(|(name, _)| {
            shell.env_remove(name);
        });
        shell
            .envs(variables.iter().copied())
            .env("AWS_ENDPOINT_URL", server.url(""))
            .args(["--format", "csv", "-c", sql]);
        let ran = shell.output().expect("the shell runs");
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
    };
    let sql =
        "COPY (SELECT sum(a) AS a FROM 's3://bucket/*/*.csv') TO 's3://bucket/out.csv'; FROM 's3://bucket/out.csv'";
    let keys = [("AWS_ACCESS_KEY_ID", "FROMENV"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "eu-central-1")];
    let shown = run(&keys, sql);
    assert!(shown.contains("a\n3\n"), "{shown}");
    assert_eq!(server.get("bucket/out.csv").as_deref().map(Vec::as_slice), Some(&b"a\n3\n"[..]));
    let shown = run(&[], sql);
    assert!(shown.contains("403") && shown.contains("AWS_ACCESS_KEY_ID"), "{shown}");
}
