//! Tokens: HS256 JSON web tokens with the claims that Slurm's `auth/jwt` uses (`sun`, `iat`, `exp`) and two of ours.
//!
//! `uid` saves a lookup and holds on machines that do not know the user; `agent` names the node of an agent. Pure apart from
//! reading the key file: the time arrives as seconds since 1970. Only HS256 is accepted, whatever the token's header says.
//! Source of the claims: Slurm's JWT page.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sluice_tls::ServerKey;

use super::key_file::{self, KeyFileError};

/// Lifespan of a token when nothing else is asked for, in seconds (as `scontrol token` gives).
pub const DEFAULT_LIFESPAN_SECS: i64 = 1800;

/// Longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// How far the clock of an issuing machine may run ahead, in seconds.
const CLOCK_SKEW_SECS_MAX: i64 = 60;

/// Who a token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSubject {
    /// Login name.
    pub user_name: String,
    /// User id, where it is known.
    pub uid: Option<u32>,
    /// The node, for an agent's token.
    pub agent: Option<String>,
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenClaims {
    /// Login name ("Slurm user name").
    pub sun: String,
    /// User id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// When it was issued, in seconds since 1970.
    #[serde(default)]
    pub iat: i64,
    /// When it ends, in seconds since 1970.
    pub exp: i64,
    /// Node of the agent that this token is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Why a token is not accepted. The texts go to the caller, so they hold nothing secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token at all.
    #[error("the token is not well formed: {0}\n\nhint: get a new one with `scontrol token`")]
    Malformed(String),
    /// Signed with another key, or changed.
    #[error(
        "the token's signature does not match this cluster's key\n\nhint: it was issued by another cluster or the key was \
         changed since; get a new one with `scontrol token`"
    )]
    Forged,
    /// Signed in a way we do not accept (`none` above all).
    #[error("the token is signed with '{0}', only HS256 is accepted")]
    WrongAlgorithm(String),
    /// Its time is over.
    #[error(
        "the token expired {ago_secs} seconds ago\n\nhint: get a new one with `scontrol token`"
    )]
    Expired {
        /// How long ago.
        ago_secs: i64,
    },
    /// Issued in the future.
    #[error(
        "the token is valid only in {in_secs} seconds\n\nhint: compare the clocks of this machine and of ctld's"
    )]
    NotYetValid {
        /// How far ahead.
        in_secs: i64,
    },
    /// Something that must be there is not.
    #[error("the token has no '{0}' claim\n\nhint: get a new one with `scontrol token`")]
    MissingClaim(&'static str),
    /// It cannot be made.
    #[error("cannot make a token: {0}")]
    Issue(String),
}

/// The cluster's key: signs tokens and checks them, and gives the key pair of the TLS listener.
pub struct TokenKey {
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
    server_key: ServerKey,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

/// Claims as they may come from anywhere: everything optional, so that what is missing can be named.
#[derive(Deserialize)]
struct RawClaims {
    sun: Option<String>,
    uid: Option<u32>,
    iat: Option<f64>,
    nbf: Option<f64>,
    exp: Option<f64>,
    agent: Option<String>,
}

impl TokenKey {
    /// A key from its bytes.
    ///
    /// # Errors
    /// When the bytes cannot be a key.
    pub fn from_bytes(secret: &[u8]) -> Result<TokenKey, TokenError> {
        let refused = |error: jsonwebtoken::errors::Error| TokenError::Issue(error.to_string());
        let mut validation = Validation::new(Algorithm::HS256);
        // Times are checked below, against the time that we are given; audience and issuer are not used.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        Ok(TokenKey {
            encoding: EncodingKey::from_secret(secret).map_err(refused)?,
            decoding: DecodingKey::from_secret(secret).map_err(refused)?,
            validation,
            server_key: ServerKey::derive(secret)
                .map_err(|error| TokenError::Issue(error.to_string()))?,
        })
    }

    /// The key pair by which agents and remote commands know this controller.
    #[must_use]
    pub fn server_key(&self) -> &ServerKey {
        &self.server_key
    }

    /// Reads the key file.
    ///
    /// # Errors
    /// [`KeyFileError`]: missing, open to others, too short.
    pub fn load(path: &Path) -> Result<TokenKey, KeyFileError> {
        TokenKey::of_file(path, &key_file::load(path)?)
    }

    /// Reads the key file, making one (32 random bytes, mode 0600) when there is none.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn load_or_create(path: &Path) -> Result<TokenKey, KeyFileError> {
        TokenKey::of_file(path, &key_file::load_or_create(path)?)
    }

    fn of_file(path: &Path, bytes: &[u8]) -> Result<TokenKey, KeyFileError> {
        TokenKey::from_bytes(bytes).map_err(|error| KeyFileError::Io {
            action: "use",
            path: path.to_owned(),
            source: std::io::Error::other(error.to_string()),
        })
    }

    /// Makes a token that is valid from `now` for `lifespan_secs`.
    ///
    /// # Errors
    /// [`TokenError::Issue`] for an empty name or a lifespan that is not positive.
    pub fn issue(
        &self,
        subject: &TokenSubject,
        now: i64,
        lifespan_secs: i64,
    ) -> Result<String, TokenError> {
        if subject.user_name.is_empty() {
            return Err(TokenError::Issue("the user name is empty".to_owned()));
        }
        let exp = now.checked_add(lifespan_secs).filter(|_| lifespan_secs > 0);
        let exp = exp.ok_or_else(|| {
            TokenError::Issue(format!(
                "a lifespan of {lifespan_secs} seconds is not possible"
            ))
        })?;
        let claims = TokenClaims {
            sun: subject.user_name.clone(),
            uid: subject.uid,
            iat: now,
            exp,
            agent: subject.agent.clone(),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding)
            .map_err(|error| TokenError::Issue(error.to_string()))
    }

    /// Checks a token at the time `now` and returns what it says.
    ///
    /// # Errors
    /// Each kind of refusal has its own [`TokenError`].
    pub fn verify(&self, token: &str, now: i64) -> Result<TokenClaims, TokenError> {
        check_header(token)?;
        let raw = jsonwebtoken::decode::<RawClaims>(token, &self.decoding, &self.validation)
            .map_err(|error| match error.kind() {
                ErrorKind::InvalidSignature => TokenError::Forged,
                ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => {
                    TokenError::WrongAlgorithm("another algorithm".to_owned())
                }
                _ => TokenError::Malformed(error.to_string()),
            })?
            .claims;
        let exp = raw.exp.ok_or(TokenError::MissingClaim("exp"))? as i64;
        let sun = raw
            .sun
            .filter(|name| !name.is_empty())
            .ok_or(TokenError::MissingClaim("sun"))?;
        if now >= exp {
            return Err(TokenError::Expired {
                ago_secs: now.saturating_sub(exp),
            });
        }
        let starts = raw.iat.unwrap_or(0.0).max(raw.nbf.unwrap_or(0.0)) as i64;
        if starts > now.saturating_add(CLOCK_SKEW_SECS_MAX) {
            return Err(TokenError::NotYetValid {
                in_secs: starts.saturating_sub(now),
            });
        }
        if raw.agent.as_deref() == Some("") {
            return Err(TokenError::Malformed(
                "the agent's node name is empty".to_owned(),
            ));
        }
        Ok(TokenClaims {
            sun,
            uid: raw.uid,
            iat: raw.iat.unwrap_or(0.0) as i64,
            exp,
            agent: raw.agent,
        })
    }
}

/// Looks at the header alone, so that a wrong algorithm is called by its name.
fn check_header(token: &str) -> Result<(), TokenError> {
    #[derive(Deserialize)]
    struct Alg {
        alg: String,
    }
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::Malformed(format!(
            "it has {} bytes, at most {TOKEN_BYTES_MAX} are read",
            token.len()
        )));
    }
    let mut parts = token.split('.');
    let (Some(header), Some(_), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Malformed(
            "it does not consist of three parts with dots between them".to_owned(),
        ));
    };
    let header = URL_SAFE_NO_PAD
        .decode(header)
        .ok()
        .and_then(|json| serde_json::from_slice::<Alg>(&json).ok())
        .ok_or_else(|| TokenError::Malformed("its header cannot be read".to_owned()))?;
    if header.alg == "HS256" {
        Ok(())
    } else {
        Err(TokenError::WrongAlgorithm(
            header.alg.chars().take(20).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn key() -> TokenKey {
        TokenKey::from_bytes(&[7; 32]).expect("key")
    }

    fn alice() -> TokenSubject {
        TokenSubject {
            user_name: "alice".to_owned(),
            uid: Some(1000),
            agent: None,
        }
    }

    /// A token with any claims, signed with `key`.
    fn signed(key: &TokenKey, claims: &serde_json::Value) -> String {
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key.encoding).expect("encode")
    }

    #[test]
    fn a_token_says_what_was_put_in() {
        let token = key().issue(&alice(), NOW, 1800).expect("issue");
        let claims = key().verify(&token, NOW + 1799).expect("valid");
        let expected = TokenClaims {
            sun: "alice".into(),
            uid: Some(1000),
            iat: NOW,
            exp: NOW + 1800,
            agent: None,
        };
        assert_eq!(claims, expected);
        let agent = TokenSubject {
            agent: Some("n1".into()),
            ..alice()
        };
        let token = key().issue(&agent, NOW, 60).expect("issue");
        assert_eq!(
            key().verify(&token, NOW).expect("valid").agent.as_deref(),
            Some("n1")
        );
    }

    #[test]
    fn a_token_as_slurm_makes_it_is_accepted() {
        // Claims as in `scontrol token` of Slurm: no uid.
        let token = signed(
            &key(),
            &serde_json::json!({"exp": NOW + 10, "iat": NOW, "sun": "alice"}),
        );
        assert_eq!(key().verify(&token, NOW).expect("valid").uid, None);
        let floats = signed(
            &key(),
            &serde_json::json!({"exp": 1_700_000_010.5, "iat": 1_700_000_000.5, "sun": "alice"}),
        );
        assert_eq!(key().verify(&floats, NOW).expect("valid").exp, NOW + 10);
    }

    #[test]
    fn the_known_example_of_rfc_7515_is_checked_right() {
        // RFC 7515 appendix A.1: key and token are given there; its claims have no `sun`, and the signature is right.
        let secret = URL_SAFE_NO_PAD
            .decode("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
            .expect("base64");
        let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leG\
                     FtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let rfc_key = TokenKey::from_bytes(&secret).expect("key");
        assert_eq!(
            rfc_key.verify(token, 1_300_819_379),
            Err(TokenError::MissingClaim("sun"))
        );
        assert_eq!(key().verify(token, 1_300_819_379), Err(TokenError::Forged));
    }

    #[test]
    fn each_refusal_is_told_apart() {
        let token = key().issue(&alice(), NOW, 1800).expect("issue");
        assert_eq!(
            key().verify(&token, NOW + 1800),
            Err(TokenError::Expired { ago_secs: 0 })
        );
        assert_eq!(
            key().verify(&token, NOW + 1860),
            Err(TokenError::Expired { ago_secs: 60 })
        );
        assert_eq!(
            key().verify(&token, NOW - 61),
            Err(TokenError::NotYetValid { in_secs: 61 })
        );
        assert!(
            key().verify(&token, NOW - 60).is_ok(),
            "clocks may differ a little"
        );

        let other = TokenKey::from_bytes(&[8; 32]).expect("key");
        assert_eq!(other.verify(&token, NOW), Err(TokenError::Forged));
        for text in [
            "",
            "abc",
            "a.b",
            "a.b.c",
            "a.b.c.d",
            &format!("{token}.x"),
            &"x".repeat(9000),
        ] {
            assert!(
                matches!(key().verify(text, NOW), Err(TokenError::Malformed(_))),
                "{text}"
            );
        }

        let no_exp = signed(&key(), &serde_json::json!({"sun": "alice", "iat": NOW}));
        assert_eq!(
            key().verify(&no_exp, NOW),
            Err(TokenError::MissingClaim("exp"))
        );
        let no_sun = signed(&key(), &serde_json::json!({"exp": NOW + 5}));
        assert_eq!(
            key().verify(&no_sun, NOW),
            Err(TokenError::MissingClaim("sun"))
        );
        let no_node = signed(
            &key(),
            &serde_json::json!({"exp": NOW + 5, "sun": "root", "agent": ""}),
        );
        assert!(matches!(
            key().verify(&no_node, NOW),
            Err(TokenError::Malformed(_))
        ));
        let negative = signed(
            &key(),
            &serde_json::json!({"exp": NOW + 5, "sun": "root", "uid": -1}),
        );
        assert!(matches!(
            key().verify(&negative, NOW),
            Err(TokenError::Malformed(_))
        ));
    }

    #[test]
    fn other_algorithms_are_refused_even_when_signed_right() {
        let claims = serde_json::json!({"exp": NOW + 5, "sun": "root"});
        let body = URL_SAFE_NO_PAD.encode(claims.to_string());
        for alg in ["none", "None", "RS256", "HS512"] {
            let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{alg}","typ":"JWT"}}"#));
            let text = format!("{header}.{body}.");
            assert_eq!(
                key().verify(&text, NOW),
                Err(TokenError::WrongAlgorithm(alg.to_owned()))
            );
        }
        let hs512 = jsonwebtoken::encode(&Header::new(Algorithm::HS512), &claims, &key().encoding)
            .expect("encode");
        assert_eq!(
            key().verify(&hs512, NOW),
            Err(TokenError::WrongAlgorithm("HS512".to_owned()))
        );
    }

    #[test]
    fn any_changed_character_is_noticed() {
        let token = key().issue(&alice(), NOW, 1800).expect("issue");
        for at in 0..token.len() - 1 {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).expect("text");
            assert!(key().verify(&changed, NOW).is_err(), "character {at}");
        }
    }

    #[test]
    fn impossible_lifespans_are_refused() {
        for lifespan in [0, -5, i64::MAX] {
            assert!(
                matches!(
                    key().issue(&alice(), NOW, lifespan),
                    Err(TokenError::Issue(_))
                ),
                "{lifespan}"
            );
        }
    }
}
