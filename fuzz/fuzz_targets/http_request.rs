#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rowmill_fuzz::http_request::run(data));
