use bytes::Bytes;
use futures::{StreamExt as _, stream};
use muster_model::image::ImageProgress;

use crate::port::{Images, PortError};

/// Images, none of them called so; this archive is of one image.
pub async fn images(images: &dyn Images, name: &str, archive: Bytes) {
    refused!(images.remove(name), PortError::NoImage(_));
    let broken = stream::iter([Err(std::io::ErrorKind::UnexpectedEof.into())]);
    assert!(!is_imported(images, name, Box::pin(broken)).await);
    let archive = stream::iter([Ok(archive)]);
    assert!(is_imported(images, name, Box::pin(archive)).await);
    let list = images.list().await.unwrap();
    assert!(list.iter().any(|image| image.name == name));
    images.remove(name).await.unwrap();
    let list = images.list().await.unwrap();
    assert!(list.iter().all(|image| image.name != name));

    let pull = images.pull("no.such.registry/i").await.unwrap();
    let last = pull.collect::<Vec<_>>().await.pop();
    assert!(matches!(last, Some(ImageProgress::Failed { .. })));
}

async fn is_imported(images: &dyn Images, name: &str, archive: crate::port::ByteStream) -> bool {
    match images.import(Some(name), archive).await {
        Ok(steps) => {
            let last = steps.collect::<Vec<_>>().await.pop();
            matches!(last, Some(ImageProgress::Ready(image)) if image.name == name)
        }
        Err(_) => false,
    }
}
