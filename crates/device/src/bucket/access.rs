//! A client of the store: where it is and who we are, from the target, a file and the environment. Keys are handed on and kept nowhere
//! else.

use super::crypto::OpenSsl;
use super::error::BucketError;
use super::uri::BucketUri;
use object_store::aws::AmazonS3Builder;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// One try of a request, its content included.
pub(crate) const TRY_MAX: Duration = Duration::from_secs(30);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Where the endpoint may stand in the environment, the first that is set counting.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
/// Any of these says where keys come from.
const SOURCES: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// Keys as a file has them. Not to be shown.
struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
}

/// Makes the client. Nothing is sent yet.
pub(crate) fn client(uri: &BucketUri) -> Result<Arc<dyn ObjectStore>, BucketError> {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(&uri.bucket);
    if let Some(path) = &uri.credentials {
        let Keys { id, secret, token } = read_keys(path)?;
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = token {
            builder = builder.with_token(token);
        }
    } else if !SOURCES.iter().any(&set) {
        // The client would ask the metadata service of a cloud that we may not be in.
        return Err(BucketError::NoCredentials);
    }
    if let Some(region) = &uri.region {
        builder = builder.with_region(region);
    }
    let from_environment = || ENDPOINTS.iter().find(|name| set(name)).and_then(|name| std::env::var(name).ok());
    let endpoint = uri.endpoint.clone().or_else(from_environment);
    let mut is_plain = false;
    if let Some(endpoint) = endpoint {
        is_plain = endpoint.starts_with("http://");
        if is_plain && !is_loopback(&endpoint) && !uri.allow_http {
            return Err(BucketError::PlainHttp { endpoint });
        }
        // That of the service counts more than the general one.
        let key = object_store::aws::AmazonS3ConfigKey::S3Endpoint;
        builder = builder.with_config(key, endpoint);
    }
    let options = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_timeout(TRY_MAX.min(uri.timeout))
        .with_connect_timeout(CONNECT_MAX.min(uri.timeout));
    // Repeating is done here, with an end that is ours.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    // Its answer names objects, and the client ends where one was not asked for.
    let builder = builder.with_disable_bulk_delete(true);
    let builder = builder.with_client_options(options).with_retry(retry).with_crypto_provider(Arc::new(OpenSsl));
    let client = builder.build().map_err(|error| BucketError::Client(error.to_string()))?;
    Ok(Arc::new(client))
}

/// Whether a URL of the form `http://host...` names this machine.
fn is_loopback(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads a file of the form that AWS's tools use; the section `default` where it has sections.
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
        (Some(id), Some(secret)) if !id.is_empty() && !secret.is_empty() => Ok(Keys { id, secret, token }),
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
}
