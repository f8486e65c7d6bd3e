//! URLs as names of files: what they look like, and what messages may show of them.

/// The scheme of a URL in lower case, for example `s3`. `None` for the path of a local file, also one after `file://`.
pub(crate) fn scheme_of(name: &str) -> Option<String> {
    let (scheme, _) = name.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    (is_scheme && !scheme.eq_ignore_ascii_case("file")).then(|| scheme.to_ascii_lowercase())
}

/// Whether the name is a URL rather than the path of a local file.
pub fn is_url(name: &str) -> bool {
    scheme_of(name).is_some()
}

/// A URL without its query and fragment.
///
/// The query of a signed URL lets its reader in, so messages do not show it.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// Whether `url` is `prefix` or a place below it. A URL must not have parts by which it could mean another place.
pub(crate) fn is_below(url: &str, prefix: &str) -> bool {
    // Clients resolve dots, also encoded ones, and read a backslash as a slash. A sign @ hides the real host.
    let has_tricks = url.contains(['\\', '@'])
        || url.contains(|c: char| c.is_control() || c.is_whitespace())
        || url.to_ascii_lowercase().contains("%2e")
        || without_scheme(url).split(['/', '?', '#']).any(|part| matches!(part, "." | ".."));
    let (url, prefix) = (with_lower_host(url), with_lower_host(prefix));
    let prefix = prefix.trim_end_matches('/');
    !has_tricks && url.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// The URL with its scheme and host in lower case. Buckets are in lower case anyway.
fn with_lower_host(url: &str) -> String {
    let host = url.len() - without_scheme(url).len();
    let end = url[host..].find('/').map_or(url.len(), |at| host + at);
    format!("{}{}", url[..end].to_ascii_lowercase(), &url[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        assert_eq!(scheme_of("S3://bucket/a").as_deref(), Some("s3"));
        assert_eq!(scheme_of("https://host").as_deref(), Some("https"));
        for path in ["/a/b.csv", "a://", "C:\\a", "file:///a.csv", "dir with://x/a", "://a"] {
            assert_eq!(is_url(path), path == "a://", "{path}");
        }
        assert_eq!(without_query("https://host/a.csv?X-Amz-Signature=1#f"), "https://host/a.csv");
    }

    #[test]
    fn a_prefix_ends_at_a_border_of_the_path() {
        for (url, prefix) in [
            ("s3://bucket/a.csv", "s3://bucket"),
            ("s3://bucket/dir/a.csv", "s3://bucket/dir/"),
            ("HTTPS://Host/a.csv?x=1", "https://host/"),
            ("https://host:8000/a", "https://host:8000"),
            ("s3://bucket/*.parquet", "s3://bucket"),
        ] {
            assert!(is_below(url, prefix), "{url} {prefix}");
        }
        for (url, prefix) in [
            ("s3://bucket-of-others/a.csv", "s3://bucket"),
            ("https://host.evil.com/a", "https://host"),
            ("https://host@evil.com/a", "https://host"),
            ("https://host:8000/a", "https://host"),
            ("https://host/dir/../secret", "https://host/dir"),
            ("https://host/dir/%2e%2E/secret", "https://host/dir"),
            ("https://host/dir\\..\\secret", "https://host/dir"),
            ("http://host/a", "https://host"),
            ("https://host\n.evil.com/a", "https://host"),
        ] {
            assert!(!is_below(url, prefix), "{url} {prefix}");
        }
    }
}
