//! Checks the address and the headers of a server before the first request.

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use crate::options::{ClientOptions, OptionsError};

/// What is appended to the path of the base URL.
const ROUTE: &str = "/chat/completions";

/// Headers that describe the transfer itself, which is the client's business.
const FRAMING: [&str; 6] = ["connection", "content-length", "expect", "te", "transfer-encoding", "upgrade"];

/// Where requests go, and with which headers.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The full address, credentials included.
    pub(crate) url: Url,
    /// Every header of a request. Values that may be secret are marked so.
    pub(crate) headers: HeaderMap,
    /// The base URL without credentials and query.
    pub(crate) shown: String,
}

impl Endpoint {
    /// Checks the address, the key and the headers.
    pub(crate) fn new(options: &ClientOptions) -> Result<Self, OptionsError> {
        let url = address(&options.base_url)?;
        let in_url = !url.username().is_empty() || url.password().is_some();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("runvil/", env!("CARGO_PKG_VERSION"))));
        if let Some(key) = &options.api_key {
            if in_url {
                return Err(OptionsError::Credentials { first: "api_key", second: "base_url" });
            }
            headers.insert(AUTHORIZATION, bearer(key.expose())?);
        }
        let mut replaced = Vec::new();
        for (name, value) in &options.headers {
            let error = |reason| OptionsError::Header { name: name.clone(), reason };
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| error("is not a header name: use letters, digits and \"-\""))?;
            if FRAMING.contains(&parsed.as_str()) {
                return Err(error("is set by the client: leave it out"));
            }
            if parsed == AUTHORIZATION {
                let first = "the header \"Authorization\"";
                if options.api_key.is_some() {
                    return Err(OptionsError::Credentials { first, second: "api_key" });
                }
                if in_url {
                    return Err(OptionsError::Credentials { first, second: "base_url" });
                }
            }
            let mut value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| error("has a value that no header can hold: remove line breaks and control characters"))?;
            value.set_sensitive(true);
            if replaced.contains(&parsed) {
                headers.append(parsed, value);
            } else {
                headers.insert(parsed.clone(), value);
                replaced.push(parsed);
            }
        }
        Ok(Self { url, headers, shown: shown(&options.base_url) })
    }

    /// Whether requests are encrypted.
    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }
}

/// The full address of the route under a base URL.
fn address(base_url: &str) -> Result<Url, OptionsError> {
    let error = |reason: &str| OptionsError::BaseUrl { reason: reason.to_owned() };
    let mut url = Url::parse(base_url.trim()).map_err(|reason| error(&reason.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(error("its scheme is neither http nor https"));
    }
    if url.fragment().is_some() {
        return Err(error("it has a fragment (the part from \"#\" on): remove it"));
    }
    let path = url.path().trim_end_matches('/');
    if path.ends_with(ROUTE) {
        return Err(error("it already ends in \"/chat/completions\", which is added to it: remove that part"));
    }
    let path = format!("{path}{ROUTE}");
    url.set_path(&path);
    Ok(url)
}

/// The value of the authorization header for a key.
fn bearer(key: &str) -> Result<HeaderValue, OptionsError> {
    if key.is_empty() {
        return Err(OptionsError::ApiKey { reason: "is empty: give a key, or none at all" });
    }
    let reason = "holds a character that no header can hold: remove spaces, line breaks and non-ASCII characters";
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(OptionsError::ApiKey { reason });
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| OptionsError::ApiKey { reason })?;
    value.set_sensitive(true);
    Ok(value)
}

/// A base URL as it may be shown: without credentials, and with a query's place only.
pub(crate) fn shown(base_url: &str) -> String {
    let Ok(mut url) = Url::parse(base_url.trim()) else {
        return String::from("(not a URL)");
    };
    // Both fail only for URLs that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    let query = url.query().is_some();
    url.set_query(None);
    let mut text = String::from(url.as_str().trim_end_matches('/'));
    if query {
        text.push_str("?..");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Secret;

    fn endpoint(base_url: &str) -> Result<Endpoint, OptionsError> {
        Endpoint::new(&ClientOptions::new(base_url))
    }

    #[test]
    fn the_route_is_appended_to_the_path() {
        for (base, full) in [
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/chat/completions"),
            ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/chat/completions"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/chat/completions"),
            ("https://host/deploy?api-version=1", "https://host/deploy/chat/completions?api-version=1"),
        ] {
            assert_eq!(endpoint(base).unwrap().url.as_str(), full);
        }
    }

    #[test]
    fn a_bad_base_url_is_refused_without_being_repeated() {
        for base in
            ["", "127.0.0.1:8080/v1", "/v1", "ftp://u:hunter2@host/v1", "http://h/v1#x", "http://h/chat/completions/"]
        {
            let text = endpoint(base).err().unwrap().to_string();
            assert!(text.starts_with("base_url must be an absolute http or https URL"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn credentials_are_never_shown() {
        let mut options = ClientOptions::new("http://user:hunter2@host:81/v1?key=hunter2");
        options.headers = vec![("X-Key".into(), "hunter2".into())];
        let endpoint = Endpoint::new(&options).unwrap();
        assert_eq!(endpoint.shown, "http://host:81/v1?..");
        options.api_key = Some(Secret::new("hunter2"));
        for text in
            [format!("{options:?}"), format!("{:?}", endpoint.headers), format!("{:?}", Endpoint::new(&options).err())]
        {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn two_sources_of_credentials_are_refused() {
        let mut options = ClientOptions::new("http://user:pw@host");
        options.api_key = Some(Secret::new("k"));
        assert_eq!(
            Endpoint::new(&options).err().unwrap().to_string(),
            "api_key and base_url both give credentials: give one of them"
        );
        options.base_url = "http://host".into();
        options.headers = vec![("authorization".into(), "Token x".into())];
        assert_eq!(
            Endpoint::new(&options).err().unwrap().to_string(),
            "the header \"Authorization\" and api_key both give credentials: give one of them"
        );
    }

    #[test]
    fn bad_keys_and_headers_are_refused_without_their_values() {
        let mut options = ClientOptions::new("http://host");
        for key in ["", "hunter2\n", "hunter2 x", "hunter2é"] {
            options.api_key = Some(Secret::new(key));
            let text = Endpoint::new(&options).err().unwrap().to_string();
            assert!(text.starts_with("api_key ") && !text.contains("hunter2"), "{text}");
        }
        options.api_key = None;
        for (name, value) in [("bad name", "x"), ("", "x"), ("X-Team", "hunter2\r\nX: y"), ("Content-Length", "3")] {
            options.headers = vec![(name.into(), value.into())];
            let text = Endpoint::new(&options).err().unwrap().to_string();
            assert!(text.starts_with(&format!("header {name:?} ")) && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_given_header_replaces_the_own_one_and_may_repeat() {
        let mut options = ClientOptions::new("http://host");
        options.headers = vec![
            ("accept".into(), "application/json".into()),
            ("X-Team".into(), "a".into()),
            ("x-team".into(), "b".into()),
        ];
        let headers = Endpoint::new(&options).unwrap().headers;
        assert_eq!(headers.get_all("accept").iter().count(), 1);
        assert_eq!(headers.get_all("x-team").iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
