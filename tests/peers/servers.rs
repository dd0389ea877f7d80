//! Each test starts its own servers.

use host_tests::Redis;

#[test]
fn two_redis_servers_share_no_data() {
    let (one, other) = (Redis::start(), Redis::start());
    let set = redis::cmd("SET")
        .arg("key")
        .arg("value")
        .exec(&mut one.connection());
    set.unwrap();
    let get = |server: &Redis| {
        redis::cmd("GET")
            .arg("key")
            .query::<Option<String>>(&mut server.connection())
            .unwrap()
    };
    assert_eq!((get(&one).as_deref(), get(&other)), (Some("value"), None));
}
