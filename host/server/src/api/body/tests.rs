//! Answers that wait for whoever asked.

use super::*;

#[tokio::test]
async fn large_answers_take_room_until_they_are_taken() {
    let room = Room {
        units: Arc::new(Semaphore::new(20)),
    };
    let text = "x".repeat(11 * FREE_BYTES);
    let answer = || room.give_out(Response::new(Body::from(text.clone())));
    let first = answer().await.unwrap();
    assert_eq!(first.headers()[CONTENT_LENGTH], text.len().to_string());
    assert!(answer().await.is_err(), "there is room for one");
    let small = Response::new(Body::from("x".repeat(FREE_BYTES)));
    room.give_out(small).await.unwrap();

    let mut body = first.into_body();
    let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(piece.len(), PIECE_BYTES);
    assert!(answer().await.is_err(), "the rest of the first waits still");
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(piece.len() + rest.len(), text.len());
    answer().await.unwrap();
}
