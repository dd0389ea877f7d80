//! How far ids are shortened.

use super::short_ids;

#[test]
fn short_ids_tell_the_jobs_of_a_list_apart() {
    let ids = [
        "01990f3c-1a2b-7000-8000-000000000001",
        "01990f3c-1a2b-7000-8000-000000000002",
        "01990f3c-1a2c-7000-8000-000000000001",
        "01990f3c-1a2b-7000-9000-000000000001",
    ];
    assert_eq!(
        short_ids(&ids),
        [
            "01990f3c-1a2b-7000-8000-000000000001",
            "01990f3c-1a2b-7000-8000-000000000002",
            "01990f3c-1a2c",
            "01990f3c-1a2b-7000-9",
        ]
    );
    assert_eq!(
        short_ids(&["01990f3c-1a2b-7000-8000-000000000001"]),
        ["01990f3c-1a2b"]
    );
    assert_eq!(short_ids(&["x", "x"]), ["x", "x"]);
}
