//! Where S3 credentials come from. The keys of the configuration are used first, and can be replaced while
//! the store is open. If the configuration has none, the environment is used, then the profile file.
//!
//! `object_store` itself covers web identity, ECS, EKS and the EC2 metadata service; this file adds the
//! shared credentials file, which is read again whenever it changes, so that rotated keys need no restart.

use crate::config::StoreConfig;
use crate::machine;
use async_trait::async_trait;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error, Result};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// The access keys in a configuration.
#[derive(Clone, Default)]
pub struct Keys {
    /// The access key's id. It is not secret, but the server masks it when it shows it.
    pub access_key: String,
    /// The secret key that belongs to `access_key`.
    pub secret_key: String,
    /// The token of temporary credentials; empty for other keys.
    pub session_token: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(*****)")
    }
}

/// Gives `object_store` the keys of the configuration, which can be replaced at any time. Every attempt at a
/// request is signed with the newest pair of keys.
pub(crate) struct GivenKeys {
    /// The configuration of the connection, without its keys.
    connection: StoreConfig,
    current: Mutex<Arc<AwsCredential>>,
}

impl std::fmt::Debug for GivenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GivenKeys(*****)")
    }
}

impl GivenKeys {
    /// Requires: `config` has keys.
    pub(crate) fn new(config: &StoreConfig) -> Self {
        Self { connection: config.with_keys(Keys::default()), current: Mutex::new(credential(config.keys())) }
    }

    /// The same configuration with the keys `keys`, which a caller tests before it uses them. An empty access
    /// key in `keys` means the same as in [`Self::replace`].
    pub(crate) fn connection_with(&self, keys: Keys) -> StoreConfig {
        self.connection.with_keys(self.completed(keys))
    }

    /// Replaces the keys. `keys` without an access key hold a new secret key for the access key in use, whose
    /// session token is then dropped.
    pub(crate) fn replace(&self, keys: Keys) {
        let keys = self.completed(keys);
        *self.current.lock() = credential(keys);
    }

    fn completed(&self, keys: Keys) -> Keys {
        if keys.access_key.is_empty() {
            return Keys { access_key: self.current.lock().key_id.clone(), ..keys };
        }
        keys
    }
}

fn credential(keys: Keys) -> Arc<AwsCredential> {
    let token = Some(keys.session_token).filter(|token| !token.is_empty());
    Arc::new(AwsCredential { key_id: keys.access_key, secret_key: keys.secret_key, token })
}

#[async_trait]
impl CredentialProvider for GivenKeys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        Ok(Arc::clone(&self.current.lock()))
    }
}

/// The keys from the environment. None unless both the access key and the secret key are set.
pub(crate) fn from_environment() -> Option<AwsCredential> {
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    Some(AwsCredential {
        key_id: variable("AWS_ACCESS_KEY_ID")?,
        secret_key: variable("AWS_SECRET_ACCESS_KEY")?,
        token: variable("AWS_SESSION_TOKEN"),
    })
}

/// Gives `object_store` the keys of one profile in a shared credentials file. The file is looked at on a thread
/// that may block, because its disk may be slow.
#[derive(Debug)]
pub(crate) struct ProfileFile(Arc<Profile>);

#[derive(Debug)]
struct Profile {
    path: PathBuf,
    profile: String,
    cached: Mutex<Option<(SystemTime, Arc<AwsCredential>)>>,
}

impl ProfileFile {
    /// The file and profile that the AWS tools would use. None unless the file holds keys for that profile.
    pub(crate) fn find() -> Option<Self> {
        let path = match std::env::var_os("AWS_SHARED_CREDENTIALS_FILE") {
            Some(path) => PathBuf::from(path),
            None => PathBuf::from(std::env::var_os("HOME")?).join(".aws/credentials"),
        };
        let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        Self::of(path, profile)
    }

    fn of(path: PathBuf, profile: String) -> Option<Self> {
        let found = Profile { path, profile, cached: Mutex::new(None) };
        found.read().ok().map(|_| Self(Arc::new(found)))
    }
}

impl Profile {
    fn read(&self) -> std::io::Result<(SystemTime, Arc<AwsCredential>)> {
        let changed = std::fs::metadata(&self.path)?.modified()?;
        let text = std::fs::read_to_string(&self.path)?;
        let credential = parse(&text, &self.profile).ok_or_else(|| {
            std::io::Error::other(format!("profile [{}] has no aws_access_key_id and secret", self.profile))
        })?;
        Ok((changed, Arc::new(credential)))
    }

    fn current(&self) -> std::io::Result<Arc<AwsCredential>> {
        let changed = std::fs::metadata(&self.path)?.modified()?;
        let mut cached = self.cached.lock();
        if let Some((read_at, credential)) = cached.as_ref()
            && *read_at == changed
        {
            return Ok(Arc::clone(credential));
        }
        let fresh = self.read()?;
        Ok(Arc::clone(&cached.insert(fresh).1))
    }
}

#[async_trait]
impl CredentialProvider for ProfileFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        let profile = Arc::clone(&self.0);
        let current = machine::run_blocking(move || profile.current()).await;
        current.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|error| Error::Generic {
            store: "S3",
            source: format!("reading credentials from {}: {error}", self.0.path.display()).into(),
        })
    }
}

/// The keys of the section `[profile]` in the text of a credentials file. None if the section is absent or
/// lacks one of the two keys.
fn parse(text: &str, profile: &str) -> Option<AwsCredential> {
    let (mut inside, mut key, mut secret, mut token) = (false, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            inside = name.trim() == profile;
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| inside && !line.starts_with('#')) else {
            continue;
        };
        let value = Some(value.trim().to_owned());
        match name.trim() {
            "aws_access_key_id" => key = value,
            "aws_secret_access_key" => secret = value,
            "aws_session_token" => token = value,
            _ => {}
        }
    }
    Some(AwsCredential { key_id: key?, secret_key: secret?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_asked_profile_counts() {
        let text = "# c\n[default]\naws_access_key_id = A\naws_secret_access_key=S\n\n[ other ]\naws_access_key_id=B\n\
                    aws_secret_access_key = T=1\naws_session_token=tok\nregion=x\n[half]\naws_access_key_id=C\n";
        let other = parse(text, "other").unwrap();
        assert_eq!((other.key_id.as_str(), other.secret_key.as_str()), ("B", "T=1"));
        assert_eq!(other.token.as_deref(), Some("tok"));
        assert_eq!(parse(text, "default").unwrap().key_id, "A");
        assert!(parse(text, "half").is_none());
        assert!(parse(text, "absent").is_none());
    }

    #[tokio::test]
    async fn replaced_keys_come_as_a_pair_and_are_in_no_debug_text() {
        let keys = |text: &str, token: &str| Keys {
            access_key: format!("access-{text}"),
            secret_key: format!("secret-{text}"),
            session_token: token.to_owned(),
        };
        let given = GivenKeys::new(&StoreConfig::default().with_keys(keys("old", "token-old")));
        let old = given.get_credential().await.unwrap();
        assert_eq!((old.key_id.as_str(), old.token.as_deref()), ("access-old", Some("token-old")));
        given.replace(keys("new", ""));
        let new = given.get_credential().await.unwrap();
        assert_eq!((new.key_id.as_str(), new.secret_key.as_str()), ("access-new", "secret-new"));
        assert_eq!(new.token, None, "a pair without a token");
        given.replace(Keys { secret_key: "second".to_owned(), ..Keys::default() });
        let new = given.get_credential().await.unwrap();
        assert_eq!((new.key_id.as_str(), new.secret_key.as_str()), ("access-new", "second"));
        let text = format!("{given:?} {:?}", keys("old", ""));
        assert!(!text.contains("-old") && !text.contains("-new"), "{text}");
    }

    #[tokio::test]
    async fn a_rotated_key_is_seen_without_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        let write = |key: &str, age_s: u64| {
            std::fs::write(&path, format!("[default]\naws_access_key_id={key}\naws_secret_access_key=S\n"))
                .unwrap();
            let when = SystemTime::now() - std::time::Duration::from_secs(age_s);
            std::fs::File::open(&path).unwrap().set_modified(when).unwrap();
        };
        write("OLD", 10);
        let file = ProfileFile::of(path.clone(), "default".into()).unwrap();
        assert_eq!(file.get_credential().await.unwrap().key_id, "OLD");
        write("NEW", 5);
        assert_eq!(file.get_credential().await.unwrap().key_id, "NEW");
    }

    #[tokio::test]
    async fn a_file_that_is_slow_to_read_stops_no_other_task() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        let keys = |key: &str| format!("[default]\naws_access_key_id={key}\naws_secret_access_key=S\n");
        std::fs::write(&path, keys("OLD")).unwrap();
        let file = ProfileFile::of(path.clone(), "default".into()).unwrap();
        std::fs::remove_file(&path).unwrap();
        // Reading a FIFO waits for a writer.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (went_on, has_gone_on) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || {
            let outcome = has_gone_on.recv_timeout(std::time::Duration::from_secs(10));
            std::fs::write(&path, keys(if outcome.is_ok() { "NEW" } else { "STOPPED" })).unwrap();
        });
        let reading = tokio::spawn(async move { file.get_credential().await.unwrap().key_id.clone() });
        tokio::task::yield_now().await;
        went_on.send(()).unwrap();
        assert_eq!(reading.await.unwrap(), "NEW");
        writer.join().unwrap();
    }
}
