//! Makes the client of the object store. Endpoint and keys come from the target, a file and the environment. Keys are
//! passed on to the client and stored nowhere else.

use super::crypto::OpenSsl;
use super::error::BucketError;
use super::uri::BucketUri;
use object_store::aws::{AmazonS3Builder, AwsCredential};
use object_store::{ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Variables that may hold the endpoint; the first one that is set counts.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
/// Addresses from which containers fetch keys over plain HTTP: Amazon's agents on the same machine.
const AGENTS: [&str; 3] = ["http://169.254.170.2/", "http://169.254.170.23/", "http://[fd00:ec2::23]/"];

/// Keys read from a file or the environment. They must not be logged.
struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
}

/// Makes the client without sending anything.
pub(crate) fn client(uri: &BucketUri) -> Result<Arc<dyn ObjectStore>, BucketError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(&uri.bucket);
    let keys = match &uri.credentials {
        Some(path) => Some(read_keys(path)?),
        None => environment_keys(&variable)?,
    };
    if let Some(Keys { id, secret, token }) = keys {
        // A token in the environment belongs to other keys, so exactly these keys are used.
        let credential = AwsCredential { key_id: id, secret_key: secret, token };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
    }
    if let Some(region) = &uri.region {
        builder = builder.with_region(region);
    }
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        refuse_control(name, variable(name).as_deref())?;
    }
    refuse_control("region=", uri.region.as_deref())?;
    let from_environment = || ENDPOINTS.iter().find_map(|name| variable(name).map(|value| (*name, value)));
    let endpoint = uri.endpoint.clone().map(|endpoint| ("endpoint=", endpoint)).or_else(from_environment);
    let mut is_plain = false;
    if let Some((name, endpoint)) = endpoint {
        refuse_endpoint(name, &endpoint)?;
        is_plain = endpoint.starts_with("http://");
        if is_plain && !is_loopback(&endpoint) && !uri.allow_http {
            return Err(BucketError::PlainHttp { endpoint });
        }
        // The variable for S3 takes precedence over the general one.
        let key = object_store::aws::AmazonS3ConfigKey::S3Endpoint;
        builder = builder.with_config(key, endpoint);
    }
    let options = ClientOptions::new()
        .with_allow_http(is_plain)
        // The time limit of one try depends on the bytes that it carries; `Store::persist` enforces it.
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_MAX.min(uri.timeout));
    // `Store::persist` repeats requests, within its own deadline.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    // The answer to a bulk deletion names objects, and the client panics on a name that it did not ask for.
    let builder = builder.with_disable_bulk_delete(true);
    let builder = builder.with_client_options(options).with_retry(retry).with_crypto_provider(Arc::new(OpenSsl));
    let client = builder.build().map_err(|error| BucketError::Client(error.to_string()))?;
    Ok(Arc::new(client))
}

/// Keys from the environment; `None` where the environment names a service that provides them. An incomplete set of
/// variables is an error: the client would silently try further sources, and at last the metadata service of a cloud
/// in which this machine may not be.
fn environment_keys(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Keys>, BucketError> {
    let pair = |one: &'static str, other: &'static str| match (variable(one), variable(other)) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        (None, _) => Err(BucketError::Environment { variable: one, what: format!("is missing beside {other}") }),
        (_, None) => Err(BucketError::Environment { variable: other, what: format!("is missing beside {one}") }),
    };
    if let Some((id, secret)) = pair("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")? {
        let token = variable("AWS_SESSION_TOKEN");
        refuse_control("AWS_ACCESS_KEY_ID", Some(&id))?;
        refuse_control("AWS_SESSION_TOKEN", token.as_deref())?;
        return Ok(Some(Keys { id, secret, token }));
    }
    // The variable of the role may be set for other programs.
    let has_file = variable("AWS_WEB_IDENTITY_TOKEN_FILE").is_some();
    if has_file && pair("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")?.is_some() {
        return Ok(None);
    }
    if variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").is_some() {
        return Ok(None);
    }
    const FULL_URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    match pair(FULL_URI, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")? {
        Some((endpoint, _)) => {
            refuse_endpoint(FULL_URI, &endpoint)?;
            let is_near = is_loopback(&endpoint) || AGENTS.iter().any(|agent| endpoint.starts_with(agent));
            if endpoint.starts_with("http://") && !is_near {
                return Err(BucketError::Environment {
                    variable: FULL_URI,
                    what: "is on another machine and not encrypted: use https://".to_owned(),
                });
            }
            Ok(None)
        }
        None => Err(BucketError::NoCredentials),
    }
}

/// Refuses values that are not printable ASCII: they go into request headers, where the client would panic.
fn refuse_control(variable: &'static str, value: Option<&str>) -> Result<(), BucketError> {
    match value {
        Some(value) if !value.bytes().all(|byte| byte.is_ascii_graphic()) => Err(BucketError::Environment {
            variable,
            what: "has characters that are no letters, digits or signs of ASCII".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Refuses an `@` in an endpoint: the part before it would be logged, and the part after it would be taken for the
/// host.
fn refuse_endpoint(variable: &'static str, endpoint: &str) -> Result<(), BucketError> {
    let is_url = endpoint.starts_with("http://") || endpoint.starts_with("https://");
    if !is_url || endpoint.contains('@') {
        let what = "does not begin with http:// or https://, or has an @".to_owned();
        return Err(BucketError::Environment { variable, what });
    }
    refuse_control(variable, Some(endpoint))
}

/// Whether a URL `http://host...` names this machine.
fn is_loopback(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads a credentials file in the format of AWS's tools; where it has sections, the section `default`.
fn read_keys(path: &Path) -> Result<Keys, BucketError> {
    let fail = |what: &str| BucketError::Credentials { path: path.to_owned(), what: what.to_owned() };
    let system = |error: std::io::Error| fail(&error.to_string());
    let mode = path.metadata().map_err(system)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(fail("others than its owner may use it; chmod 600 it"));
    }
    let text = std::fs::read_to_string(path).map_err(system)?;
    let (mut id, mut secret, mut token, mut is_ours) = (None, None, None, true);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if line.starts_with('[') {
            is_ours = line == "[default]";
        } else if is_ours && let Some((name, value)) = line.split_once('=') {
            let value = Some(value.trim().to_owned());
            match name.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    match (id, secret) {
        (Some(id), Some(secret)) if !id.is_empty() && !secret.is_empty() => {
            let token = token.filter(|token| !token.is_empty());
            let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_text(&id) || !token.as_deref().is_none_or(is_text) {
                return Err(fail("a key or token has characters that are no letters, digits or signs of ASCII"));
            }
            Ok(Keys { id, secret, token })
        }
        _ => Err(fail("it lacks aws_access_key_id = ... or aws_secret_access_key = ...")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_address_and_not_by_how_a_name_begins() {
        for good in ["http://127.0.0.1:9000", "http://localhost", "http://[::1]:7/x", "http://127.8.8.8"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "http://10.0.0.1",
            "http://localhost.example.org",
            "http://127.0.0.1.example.org",
            "http://",
            "http://[::2]",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn keys_are_read_of_a_file_that_only_its_owner_may_use() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("keys");
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let text =
            "# mine\n[default]\naws_access_key_id = ID\naws_secret_access_key=S=\n[other]\naws_access_key_id = X\n";
        write(text, 0o600);
        let keys = read_keys(&path).ok().unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.as_str(), keys.token), ("ID", "S=", None));
        let refused = |part: &str| {
            let error = read_keys(&path).err().unwrap().to_string();
            assert!(error.contains(part) && error.contains("keys") && !error.contains("S="), "{error}");
        };
        write(text, 0o640);
        refused("chmod 600");
        write("[default]\naws_access_key_id = ID\n", 0o600);
        refused("lacks");
    }

    #[test]
    fn regression_half_of_a_source_is_an_error_and_no_reason_to_ask_another_one() {
        let found = |variables: &[(&str, &str)]| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            match environment_keys(&variable) {
                Ok(keys) => keys.map_or("a service".to_owned(), |Keys { id, token, .. }| format!("{id} {token:?}")),
                Err(error) => error.to_string(),
            }
        };
        const ID: (&str, &str) = ("AWS_ACCESS_KEY_ID", "ID");
        const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "S");
        const FILE: (&str, &str) = ("AWS_WEB_IDENTITY_TOKEN_FILE", "/f");
        const AUTHORIZATION: (&str, &str) = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/f");
        let full = |uri| ("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri);
        for (variables, part) in [
            (&[][..], "no keys"),
            (&[ID, SECRET], "ID None"),
            (&[ID, SECRET, ("AWS_SESSION_TOKEN", "T")], "ID Some(\"T\")"),
            (&[ID, SECRET, ("AWS_SESSION_TOKEN", "T\nx")], "AWS_SESSION_TOKEN has characters"),
            (&[ID], "AWS_SECRET_ACCESS_KEY is missing"),
            (&[SECRET, FILE], "AWS_ACCESS_KEY_ID is missing"),
            (&[FILE], "AWS_ROLE_ARN is missing"),
            (&[FILE, ("AWS_ROLE_ARN", "r")], "a service"),
            (&[("AWS_ROLE_ARN", "r")], "no keys"),
            (&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")], "a service"),
            (&[full("https://x/y")], "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is missing"),
            (&[full("https://x/y"), AUTHORIZATION], "a service"),
            (&[full("http://169.254.170.23/v1/credentials"), AUTHORIZATION], "a service"),
            (&[full("http://127.0.0.1:9/x"), AUTHORIZATION], "a service"),
            (&[full("http://elsewhere/x"), AUTHORIZATION], "on another machine"),
            (&[full("http://127.0.0.1:9@elsewhere/x"), AUTHORIZATION], "has an @"),
        ] {
            assert!(found(variables).contains(part), "{variables:?}: {}", found(variables));
        }
        assert!(refuse_endpoint("AWS_ENDPOINT_URL", "https://me:secret@x").is_err());
        assert!(refuse_endpoint("AWS_ENDPOINT_URL", "https://x:9000/y").is_ok());
    }

    #[test]
    fn regression_a_token_that_is_no_text_is_refused_before_the_client_has_it() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("keys");
        let text = "aws_access_key_id = ID\naws_secret_access_key = S\naws_session_token = a\u{1}b\n";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read_keys(&path).err().unwrap().to_string().contains("token has characters"));
    }
}
