//! SHA-256 and HMAC for S3 signatures from the RustCrypto crates (sha2 uses SHA-NI when the CPU has it).
//!
//! `object_store` itself can use ring or aws-lc-rs, but both contain code under licences that do not combine
//! with GPL-2.0-only. This file has only what S3 needs. Signing with RSA, which Google's cloud needs, is
//! refused.

use hmac::{Hmac, KeyInit, Mac};
use object_store::client::{
    CryptoProvider, DigestAlgorithm, DigestContext, HmacContext, Signer, SigningAlgorithm,
};
use object_store::{Error, Result};
use sha2::{Digest, Sha256};

/// The functions for signatures that this crate gives to `object_store`.
#[derive(Debug)]
pub(crate) struct RustCrypto;

fn unsupported(what: &str) -> Error {
    Error::NotSupported { source: format!("{what} is not available in this build").into() }
}

impl CryptoProvider for RustCrypto {
    fn digest(&self, algorithm: DigestAlgorithm) -> Result<Box<dyn DigestContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => Ok(Box::new(Sha256Context { state: Sha256::new(), digest: [0; 32] })),
            other => Err(unsupported(&format!("digest {other:?}"))),
        }
    }

    fn hmac(&self, algorithm: DigestAlgorithm, secret: &[u8]) -> Result<Box<dyn HmacContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => {
                let state =
                    Hmac::<Sha256>::new_from_slice(secret).map_err(|_| unsupported("this HMAC key"))?;
                Ok(Box::new(HmacSha256Context { state, tag: [0; 32] }))
            }
            other => Err(unsupported(&format!("HMAC {other:?}"))),
        }
    }

    fn sign(&self, _algorithm: SigningAlgorithm, _pem: &[u8]) -> Result<Box<dyn Signer>> {
        Err(unsupported("signing with RSA"))
    }
}

/// The SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The first 32 hexadecimal digits of the SHA-256 of `bytes`, as a short name. Different texts practically
/// never get the same name.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Sha256Context {
    state: Sha256,
    digest: [u8; 32],
}

impl DigestContext for Sha256Context {
    fn update(&mut self, data: &[u8]) {
        self.state.update(data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.digest = self.state.finalize_reset().into();
        Ok(&self.digest)
    }
}

struct HmacSha256Context {
    state: Hmac<Sha256>,
    tag: [u8; 32],
}

impl HmacContext for HmacSha256Context {
    fn update(&mut self, data: &[u8]) {
        self.state.update(data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.tag = self.state.clone().finalize().into_bytes().into();
        Ok(&self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn digest_and_hmac_match_published_vectors() {
        // The expected values: FIPS 180-2 for "abc", and RFC 4231, test case 2.
        let mut digest = RustCrypto.digest(DigestAlgorithm::Sha256).unwrap();
        digest.update(b"a");
        digest.update(b"bc");
        assert_eq!(
            hex(digest.finish().unwrap()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let mut tag = RustCrypto.hmac(DigestAlgorithm::Sha256, b"Jefe").unwrap();
        tag.update(b"what do ya want for nothing?");
        assert_eq!(
            hex(tag.finish().unwrap()),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
