#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rowmill_fuzz::pg_session::run(data));
