//! Import of archives.

use tokio::io::AsyncWriteExt;

use super::fixture::{
    Built, Packing, busybox, docker_archive, image, image_for, index, layer, oci_archive, tar,
};
use super::node::{Left, Node};
use crate::image::{Digest, ImageError};

fn hello(packing: Packing) -> Built {
    image(&[busybox(), layer("hello", b"hello\n", packing)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_of_every_kind_become_images_that_run() {
    let Some(node) = Node::start("image archives") else {
        return;
    };
    let twice = layer("twice", b"hello\n", Packing::Plain);
    let again = layer("twice", b"hello\n", Packing::Plain);
    let plain = image(&[
        busybox(),
        layer("hello", b"hello\n", Packing::Plain),
        twice,
        again,
    ]);
    let (gzip, zstd) = (hello(Packing::Gzip), hello(Packing::Zstd));
    let other = image_for("s390x", &[layer("hello", b"other", Packing::Gzip)]);
    let nested = index(&[other.entry(None), gzip.entry(None)]);
    let mut nested_entry = gzip.entry(Some("nested:1"));
    nested_entry["digest"] = Digest::of(&nested).to_string().into();
    nested_entry["size"] = nested.len().into();
    let of_both = [other.entry(Some("two:1")), gzip.entry(Some("two:1"))];
    let oci = |built: &Built, name| oci_archive(&[built], &[built.entry(Some(name))], &[]);
    let table = [
        (
            "gzip layer",
            oci(&gzip, "oci:1"),
            None,
            &gzip,
            "docker.io/library/oci:1",
        ),
        (
            "zstd layer",
            oci(&zstd, "h.io/a/b:2"),
            None,
            &zstd,
            "h.io/a/b:2",
        ),
        (
            "tag only",
            oci(&gzip, "latest"),
            Some("given"),
            &gzip,
            "docker.io/library/given:latest",
        ),
        (
            "gzip archive",
            Packing::Gzip.pack(&oci(&gzip, "z:1")),
            None,
            &gzip,
            "docker.io/library/z:1",
        ),
        (
            "zstd archive",
            Packing::Zstd.pack(&oci(&gzip, "z:2")),
            None,
            &gzip,
            "docker.io/library/z:2",
        ),
        (
            "two platforms",
            oci_archive(&[&other, &gzip], &of_both, &[]),
            None,
            &gzip,
            "docker.io/library/two:1",
        ),
        (
            "nested index",
            oci_archive(&[&other, &gzip], &[nested_entry], &[nested]),
            None,
            &gzip,
            "docker.io/library/nested:1",
        ),
        (
            "docker save",
            docker_archive(&plain, &["saved:1"]),
            None,
            &plain,
            "docker.io/library/saved:1",
        ),
    ];
    for (case, archive, given, built, name) in table {
        let images = node
            .import(archive, given)
            .await
            .unwrap_or_else(|e| panic!("{case}: {e}"));
        node.collect();
        assert_eq!(images.len(), 1, "{case}");
        assert_eq!(images[0].name, name, "{case}");
        let short = name.trim_start_matches("docker.io/library/");
        assert_eq!(
            node.store.resolve(short).await.unwrap(),
            images[0],
            "{case}"
        );
        if case != "docker save" {
            assert_eq!(images[0].digest, built.digest(), "{case}");
            assert_eq!(images[0].size_bytes, built.bytes(), "{case}");
        }
        assert_eq!(node.run(name, &["cat", "/hello"]), "hello\n", "{case}");
    }
    let listed = node.store.list().await.unwrap();
    assert_eq!(listed.len(), 8);
    for image in listed {
        node.store.remove(&image.name).await.unwrap();
    }
    assert_eq!(node.left(), Left::default(), "after removing all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_archive_says_what_is_wrong_and_leaves_nothing() {
    let Some(node) = Node::start("bad image archives") else {
        return;
    };
    let good = image(&[
        layer("a", b"a", Packing::Gzip),
        layer("b", b"b", Packing::Gzip),
    ]);
    let whole = oci_archive(&[&good], &[good.entry(Some("bad:1"))], &[]);
    let other = image_for("s390x", &[layer("a", b"a", Packing::Gzip)]);
    let lying = {
        let (mut lying, other) = (good.clone(), image(&[layer("x", b"x", Packing::Gzip)]));
        let (mine, its) = (good.blobs(), other.blobs());
        let text = String::from_utf8(lying.manifest).unwrap();
        let fake = its
            .iter()
            .find(|(_, blob)| blob.starts_with(&[0x1f]))
            .unwrap();
        let real = mine
            .iter()
            .find(|(_, blob)| blob.starts_with(&[0x1f]))
            .unwrap();
        let text = text.replace(real.0.as_str(), fake.0.as_str());
        lying.manifest = text
            .replace(
                &format!("\"size\":{}", real.1.len()),
                &format!("\"size\":{}", fake.1.len()),
            )
            .into_bytes();
        oci_archive(
            &[&lying],
            &[lying.entry(Some("bad:1"))],
            std::slice::from_ref(fake.1),
        )
    };
    let blob = good
        .blobs()
        .into_iter()
        .find(|(_, b)| b.starts_with(&[0x1f]))
        .unwrap();
    let damaged_told = format!("{} is damaged", blob.0);
    let mut damaged = whole.clone();
    let at = damaged
        .windows(blob.1.len())
        .position(|w| w == blob.1)
        .unwrap();
    damaged[at + 15] ^= 1;
    let missing = tar(&[("index.json", &index(&[good.entry(Some("bad:1"))]))]);
    let others = good
        .blobs()
        .into_iter()
        .filter(|(digest, _)| *digest != blob.0);
    let mut others: Vec<Vec<u8>> = others.map(|(_, bytes)| bytes).collect();
    others.push(good.manifest.clone());
    let incomplete = oci_archive(&[], &[good.entry(Some("bad:1"))], &others);
    let incomplete_told = format!("blob {} is not in it", blob.0);
    let short = {
        let (mut short, size) = (good.clone(), blob.1.len());
        let text = String::from_utf8(short.manifest).unwrap();
        let (said, more) = (format!("\"size\":{size}"), format!("\"size\":{}", size + 1));
        short.manifest = text.replace(&said, &more).into_bytes();
        oci_archive(&[&short], &[short.entry(Some("bad:1"))], &[])
    };
    let big = tar(&[("index.json", &vec![b' '; 5 << 20])]);
    let outside = tar(&[("blobs/sha256/passwd", b"x")]);
    let no_config = br#"[{"Config":"c.json","RepoTags":["a:1"],"Layers":[]}]"#;
    let table = [
        ("damaged blob", damaged, damaged_told.as_str()),
        ("layer of another image", lying, "but the image says"),
        ("missing manifest", missing, good.digest().as_str()),
        ("missing layer", incomplete, incomplete_told.as_str()),
        ("layer of another size", short, "bytes instead of"),
        ("cut off", whole[..whole.len() / 2].to_vec(), "ends"),
        (
            "cut off, packed",
            Packing::Gzip.pack(&whole)[..200].to_vec(),
            "ends",
        ),
        (
            "other platform",
            oci_archive(&[&other], &[other.entry(Some("b:1"))], &[]),
            "linux/s390x",
        ),
        ("not an archive", b"hello, world".repeat(100), "not a tar"),
        ("nothing", Vec::new(), "no index.json"),
        (
            "xz",
            b"\xfd7zXZ\0\0\x04".repeat(100),
            "compressed with xz: decompress it first",
        ),
        (
            "bzip2",
            b"BZh91AY&SY".repeat(100),
            "compressed with bzip2: decompress it first",
        ),
        (
            "lz4",
            b"\x04\x22\x4d\x18".repeat(100),
            "compressed with lz4",
        ),
        ("zip", b"PK\x03\x04".repeat(100), "compressed with zip"),
        ("huge document", big, "index.json has 5242880 bytes"),
        ("odd blob", outside, "not named by a sha256"),
        (
            "nameless",
            oci_archive(&[&good], &[good.entry(None)], &[]),
            "give a name",
        ),
        (
            "docker, no config",
            tar(&[("manifest.json", no_config)]),
            "`c.json`, which is not in it",
        ),
    ]
    .map(|(case, archive, told)| (case, archive, told.to_owned()));
    for (case, archive, told) in table {
        let error = node
            .import(archive, None)
            .await
            .expect_err(case)
            .to_string();
        assert!(error.contains(&told), "{case}: {error}");
        assert_eq!(node.left(), Left::default(), "{case}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_nobody_waits_for_is_undone() {
    let Some(node) = Node::start("abandoned image import") else {
        return;
    };
    let built = hello(Packing::Gzip);
    let archive = oci_archive(&[&built], &[built.entry(Some("gone:1"))], &[]);
    let (mut upload, reader) = tokio::io::duplex(1 << 16);
    let operation = node.store.import(reader, None);
    // More than the pipe holds: some of it has arrived when this returns.
    upload
        .write_all(&archive[..archive.len() / 2])
        .await
        .unwrap();
    drop(operation);
    // The reading end is dropped as soon as the import has given up.
    while upload.write_all(&[0; 512]).await.is_ok() {
        tokio::task::yield_now().await;
    }
    wait_until_clean(&node).await;
    let error = node.store.resolve("gone:1").await.unwrap_err();
    assert!(matches!(error, ImageError::NotHere(_)), "{error}");
}

async fn wait_until_clean(node: &Node) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while node.left() != Left::default() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "still left: {:?}",
            node.left()
        );
    }
}
