//! Clients that read nothing and clients that read slowly.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::WriteTimeout;

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_ends_its_connection() {
    let (ours, _theirs) = duplex(16);
    let mut stream = WriteTimeout::new(ours, TIMEOUT);
    let error = stream.write_all(&[0; 17]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_slowly_is_waited_for() {
    let (ours, mut theirs) = duplex(16);
    let mut stream = WriteTimeout::new(ours, TIMEOUT);
    let read = async {
        let mut bytes = [0; 16];
        for _ in 0..10 {
            // Time is paused, so this takes no real time.
            tokio::time::sleep(Duration::from_secs(29)).await;
            theirs.read_exact(&mut bytes).await.unwrap();
        }
    };
    let (written, ()) = tokio::join!(stream.write_all(&[0; 160]), read);
    written.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_may_be_silent() {
    let (ours, mut theirs) = duplex(16);
    let mut stream = WriteTimeout::new(ours, TIMEOUT);
    tokio::time::sleep(TIMEOUT * 2).await;
    theirs.write_all(b"x").await.unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).await.unwrap();
    stream.write_all(b"y").await.unwrap();
    theirs.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b"y");
}
