use futures::StreamExt as _;
use muster_model::id::AttemptUid;

use crate::port::{ByteStream, LogQuestion, LogRange, LogWish, Logs, PortError};

/// Logs, where this attempt has written `0123456789` to its standard output, and goes on.
pub async fn logs(logs: &dyn Logs, uid: &AttemptUid) {
    let other = "no-such-attempt".parse().unwrap();
    let wish = |range, follow| LogWish {
        range,
        follow,
        whole: false,
    };
    let all = wish(LogRange::All, false);
    refused!(logs.files(&other), PortError::NoLog);
    refused!(logs.read(&other, "stdout", all), PortError::NoLog);
    refused!(logs.read(uid, "no-such-file", all), PortError::NoLog);
    let files = logs.files(uid).await.unwrap();
    let stdout = files.iter().find(|file| file.name == "stdout");
    assert_eq!(stdout.map(|file| file.size), Some(10));

    let bytes = |start, end| LogRange::Bytes { start, end };
    for (range, start, text) in [
        (LogRange::All, 0, "0123456789"),
        (LogRange::Tail(4), 6, "6789"),
        (LogRange::Tail(99), 0, "0123456789"),
        (bytes(3, Some(5)), 3, "345"),
        (bytes(3, None), 3, "3456789"),
        (bytes(3, Some(99)), 3, "3456789"),
        (bytes(10, None), 10, ""),
        (bytes(99, None), 10, ""),
    ] {
        let part = logs.read(uid, "stdout", wish(range, false)).await.unwrap();
        assert_eq!((part.start, part.size), (start, 10), "{range:?}");
        assert_eq!(part.length, Some(text.len() as u64), "{range:?}");
        assert_eq!(whole(part.body).await, text.as_bytes(), "{range:?}");
    }
    let followed = logs.read(uid, "stdout", wish(LogRange::Tail(2), true));
    let mut followed = followed.await.unwrap();
    assert_eq!((followed.start, followed.length), (8, None));
    let first = followed.body.next().await.unwrap().unwrap();
    assert_eq!(&first[..], b"89");
    places(logs, uid).await;
}

async fn places(logs: &dyn Logs, uid: &AttemptUid) {
    let text = |text: &str, from| LogQuestion::Text {
        text: text.to_owned(),
        from,
        line: None,
    };
    let other = "no-such-attempt".parse().unwrap();
    refused!(
        logs.places(&other, "stdout", text("4", 0)),
        PortError::NoLog
    );
    refused!(
        logs.places(uid, "no-such-file", text("4", 0)),
        PortError::NoLog
    );
    let found = logs.places(uid, "stdout", text("456", 0)).await.unwrap();
    assert_eq!((found.start, found.size, found.next), (0, 10, None));
    let place = &found.places[0];
    assert_eq!((place.offset, place.line), (0, Some(1)));
    assert_eq!(place.text, "0123456789");
    let none = logs.places(uid, "stdout", text("654", 0)).await.unwrap();
    assert!(none.places.is_empty());
    let end = logs.places(uid, "stdout", text("456", 10)).await.unwrap();
    assert!(end.places.is_empty());
    // A log without times names no place.
    let then = logs
        .places(uid, "stdout", LogQuestion::Time(1))
        .await
        .unwrap();
    assert!(then.places.iter().all(|place| place.offset == 0));
}

async fn whole(body: ByteStream) -> Vec<u8> {
    let parts: Vec<_> = body.collect().await;
    parts.into_iter().flat_map(Result::unwrap).collect()
}
