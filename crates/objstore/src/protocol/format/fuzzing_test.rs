//! Goal:   no bytes from a bucket make a reader panic, and a record that was read is the same when it is
//!         written and read again.
//! Method: the inputs of fuzz/corpus and the seeds of each target, then 3,000 seeded mutations of them.
//!         ATOLL_SEED repeats a run.

use crate::protocol::format::fuzzing::TARGETS;
use crate::protocol::testing::test_random::Random;
use std::path::Path;

const MUTATIONS: usize = 3_000;

/// Returns the stored inputs of a target: seeds, and inputs that once made the target fail, which were added
/// with the fix. tools/fuzz.sh takes the names of the targets from these folders.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

/// Makes one to three changes in `bytes`: another byte, a flipped bit, up to 16 bytes that are all 0xff, a
/// piece that is removed or doubled.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let at = random.below(bytes.len() as u64) as usize;
        let end = (at + 1 + random.below(16) as usize).min(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at..end].fill(0xff),
            3 => drop(bytes.drain(at..end)),
            _ => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
        }
    }
}

#[test]
fn no_reader_panics_whatever_the_bucket_holds() {
    let mut random = Random::from_environment("fuzzing");
    for target in TARGETS {
        let seeds = (target.seeds)();
        let corpus = corpus(target.name);
        assert!(!corpus.is_empty(), "fuzz/corpus/{} holds nothing", target.name);
        let inputs: Vec<Vec<u8>> = seeds.into_iter().chain(corpus).collect();
        inputs.iter().for_each(|input| (target.run)(input));
        for _ in 0..MUTATIONS {
            let mut input = inputs[random.below(inputs.len() as u64) as usize].clone();
            mutate(&mut random, &mut input);
            (target.run)(&input);
        }
    }
}
