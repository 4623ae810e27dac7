//! How the two ends of a step's connection show each other that both know the step's secret, without sending it.
//!
//! The step daemon says hello with a random text; srun answers with one of its own and a proof over both; the step daemon answers
//! with a proof in turn. A proof is HMAC-SHA-256 (RFC 2104) keyed with the secret, over a word for the direction and both texts, in
//! hexadecimal. Invariant: a proof of one direction is useless in the other, and one of an earlier connection in a later one.

use sha2::{Digest as _, Sha256};

/// Who proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// srun, or another command that listens.
    Srun,
    /// The step daemon.
    Step,
}

/// Block size of SHA-256 in bytes.
const BLOCK: usize = 64;

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new()
        .chain_update(padded(0x36))
        .chain_update(message)
        .finalize();
    Sha256::new()
        .chain_update(padded(0x5c))
        .chain_update(inner)
        .finalize()
        .into()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The proof of one side.
#[must_use]
pub fn proof(secret: &str, side: Side, step_nonce: &str, srun_nonce: &str) -> String {
    let word = match side {
        Side::Srun => "srun",
        Side::Step => "step",
    };
    // Lengths keep the parts apart: no two pairs of texts give the same message.
    let message = format!(
        "{word} {} {step_nonce} {} {srun_nonce}",
        step_nonce.len(),
        srun_nonce.len()
    );
    hexadecimal(&hmac(secret.as_bytes(), message.as_bytes()))
}

/// Compares two proofs in a time that does not depend on where they differ.
#[must_use]
pub fn same(shown: &str, expected: &str) -> bool {
    shown.len() == expected.len()
        && shown
            .bytes()
            .zip(expected.bytes())
            .fold(0, |differences, (a, b)| differences | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases 2 and 6 of RFC 4231.
    #[test]
    fn hmac_of_the_standard() {
        assert_eq!(
            hexadecimal(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hexadecimal(&hmac(
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First"
            )),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    /// A proof answers one pair of texts in one direction with one secret.
    #[test]
    fn proofs_are_for_one_connection() {
        let right = proof("secret", Side::Step, "a", "b");
        assert!(same(&right, &proof("secret", Side::Step, "a", "b")));
        for other in [
            proof("other", Side::Step, "a", "b"),
            proof("secret", Side::Srun, "a", "b"),
            proof("secret", Side::Step, "b", "a"),
            proof("secret", Side::Step, "a", "c"),
            String::new(),
        ] {
            assert!(!same(&right, &other));
        }
    }
}
