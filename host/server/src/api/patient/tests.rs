use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::Patient;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_is_given_up() {
    let (ours, _theirs) = duplex(16);
    let mut patient = Patient::new(ours, PATIENCE);
    let error = patient.write_all(&[0; 17]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_slowly_is_waited_for() {
    let (ours, mut theirs) = duplex(16);
    let mut patient = Patient::new(ours, PATIENCE);
    let read = async {
        let mut bytes = [0; 16];
        for _ in 0..10 {
            // Time is paused: this takes none.
            tokio::time::sleep(Duration::from_secs(29)).await;
            theirs.read_exact(&mut bytes).await.unwrap();
        }
    };
    let (written, ()) = tokio::join!(patient.write_all(&[0; 160]), read);
    written.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_may_be_silent() {
    let (ours, mut theirs) = duplex(16);
    let mut patient = Patient::new(ours, PATIENCE);
    tokio::time::sleep(PATIENCE * 2).await;
    theirs.write_all(b"x").await.unwrap();
    let mut byte = [0];
    patient.read_exact(&mut byte).await.unwrap();
    patient.write_all(b"y").await.unwrap();
    theirs.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b"y");
}
