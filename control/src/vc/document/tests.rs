use muster_model::job::JobSpec;
use muster_model::protocol;

use super::*;

const YAML: &str = "protocolVersion: 2\nname: train\ntype: job\nprerequisites:\n  - {type: dockerimage, \
    name: image, uri: 'openpai/standard'}\ntaskRoles:\n  worker:\n    instances: 2\n    dockerImage: image\n    \
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}\n    commands:\n      - git clone \
    https://github.com/alice/cifar.git\n      - python train.py --lr 0.1 --out /mnt/out/$PAI_JOB_NAME\n";

fn job() -> (JobSpec, String) {
    let protocol = protocol::parse(YAML).unwrap();
    let (config, _) = protocol.split_secrets();
    (protocol.job_spec().unwrap(), config.to_string())
}

#[test]
fn what_was_taken_out_comes_back() {
    let (whole, config) = job();
    let mut spec = whole.clone();
    spec.roles[0].post_commands.push("echo done".to_owned());
    let whole = spec.clone();
    let document = JobDocument::take(&mut spec, config.clone());
    assert_eq!(spec.roles[0].entrypoint, "");
    assert_eq!(document.whole(&spec), Some(whole));
    assert_eq!(document.config_json(), Some(config));
}

#[test]
fn a_document_takes_a_third_of_its_bytes_at_most() {
    let (mut spec, config) = job();
    let bytes = config.len() + spec.roles[0].entrypoint.len();
    let document = JobDocument::take(&mut spec, config);
    assert!(
        document.0.len() * 3 <= bytes,
        "{} of {bytes}",
        document.0.len()
    );
}

#[test]
fn what_cannot_be_shortened_is_packed_all_the_same() {
    let mut random = 1_u64;
    let mut draw = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from_u32(0x4e00 + u32::try_from(random >> 40).unwrap() % 20_000).unwrap()
    };
    let config: String = (0..100_000).map(|_| draw()).collect();
    let document = JobDocument::take(&mut job().0, config.clone());
    assert_eq!(document.config_json(), Some(config));
}

#[test]
fn what_is_no_document_is_none() {
    let (mut spec, config) = job();
    let JobDocument(good) = JobDocument::take(&mut spec, config);
    let mut newer = good.clone();
    newer[0] += 1;
    let short: Box<[u8]> = good[..good.len() - 1].into();
    let huge = [
        &[VERSION],
        &*postcard::to_stdvec(&usize::MAX).unwrap(),
        &good[3..],
    ]
    .concat();
    for bad in [newer, short, huge.into(), Box::default()] {
        assert_eq!(JobDocument(bad).config_json(), None);
    }
}

/// What was packed by any release is read by every later one of the major version.
#[test]
fn the_words_are_those_that_documents_were_packed_with() {
    let sum = WORDS.iter().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    assert_eq!(
        (VERSION, WORDS.len(), sum),
        (1, 1629, 4208011154841350477),
        "other words take another version"
    );
}
