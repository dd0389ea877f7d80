//! Dependencies inside one enqueue: finds a cycle before any job is accepted.

/// Returns the nodes along a cycle, for people: `#1 → #3 → #1`.
pub fn path(cycle: &[usize]) -> String {
    let nodes: Vec<String> = cycle.iter().map(|n| format!("#{n}")).collect();
    nodes.join(" → ")
}

/// Finds a cycle in a graph given as, for each node, the nodes it depends on. Indices outside the
/// graph are ignored.
///
/// Returns the nodes along the cycle, the first repeated at the end (`[1, 3, 1]`), or `None`.
/// Linear in nodes and edges, without recursion.
pub fn find_cycle(depends_on: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        OnPath,
        Done,
    }
    let mut marks = vec![Mark::New; depends_on.len()];
    for start in 0..depends_on.len() {
        if marks[start] != Mark::New {
            continue;
        }
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        marks[start] = Mark::OnPath;
        while let Some((node, edge)) = path.last_mut() {
            let Some(&next) = depends_on[*node].get(*edge) else {
                marks[*node] = Mark::Done;
                path.pop();
                continue;
            };
            *edge += 1;
            match marks.get(next) {
                Some(Mark::New) => {
                    marks[next] = Mark::OnPath;
                    path.push((next, 0));
                }
                Some(Mark::OnPath) => {
                    let cycle = path.iter().map(|(node, _)| *node);
                    return Some(
                        cycle
                            .skip_while(|node| *node != next)
                            .chain([next])
                            .collect(),
                    );
                }
                Some(Mark::Done) | None => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    #[test]
    fn a_cycle_is_named_by_its_path() {
        for (graph, cycle) in [
            (vec![], None),
            (vec![vec![0]], Some(vec![0, 0])),
            (vec![vec![], vec![0], vec![0, 1]], None),
            (vec![vec![1], vec![2], vec![1]], Some(vec![1, 2, 1])),
            (vec![vec![9]], None),
            (vec![vec![1, 2], vec![3], vec![3], vec![]], None),
        ] {
            assert_eq!(find_cycle(&graph), cycle, "{graph:?}");
        }
    }

    #[test]
    fn a_chain_of_any_length_needs_no_stack() {
        let chain: Vec<Vec<usize>> = (0..100_000).map(|node| vec![node + 1]).collect();
        assert_eq!(find_cycle(&chain), None);
    }
}
