//! How many tasks of a step each node gets, and which ranks they are: `--distribution`.
//!
//! Pure arithmetic on counts. Source: srun(1) -m, agent reference 6.

/// Tasks on each node: `size` each in turns as long as there is room. `None` = there is no room for all.
fn spread_by(size: u32, num_tasks: u32, capacities: &[u32]) -> Option<Vec<u32>> {
    let mut counts = vec![0_u32; capacities.len()];
    let mut left = num_tasks;
    while left > 0 {
        let before = left;
        for (count, capacity) in counts.iter_mut().zip(capacities) {
            let taken = size.min(left).min(capacity - *count);
            *count += taken;
            left -= taken;
        }
        if left == before {
            return None;
        }
    }
    Some(counts)
}

/// Tasks on each node as the distribution wants: by turns as long as there is room; with `Pack` a node is filled first, and so
/// with `pack_nodes` (CR_Pack_Nodes) unless it says `NoPack` or another way than `block`; with `plane=` the turns take several at
/// once.
pub(super) fn count_tasks(
    distribution: Option<&str>,
    pack_nodes: bool,
    num_tasks: u32,
    capacities: &[u32],
) -> Option<Vec<u32>> {
    let text = distribution.unwrap_or_default().to_ascii_lowercase();
    let says = |wanted: &str| text.split(',').skip(1).any(|word| word == wanted);
    let first = text.split([':', ',']).next().unwrap_or("");
    let in_blocks = matches!(first, "" | "*" | "block");
    let pack = says("pack") || (pack_nodes && in_blocks && !says("nopack"));
    let plane = text
        .split([':', ','])
        .next()
        .and_then(|first| first.strip_prefix("plane=")?.parse::<u32>().ok());
    match (pack, plane) {
        (true, _) => spread_by(u32::MAX, num_tasks, capacities),
        (false, Some(size)) => spread_by(size.max(1), num_tasks, capacities),
        (false, None) => spread(num_tasks, capacities),
    }
}

fn spread(num_tasks: u32, capacities: &[u32]) -> Option<Vec<u32>> {
    spread_by(1, num_tasks, capacities)
}

/// Which ranks run where: block when there are more tasks than nodes, cyclic otherwise, or as `-m` says.
pub(super) fn assign_ranks(
    distribution: Option<&str>,
    num_tasks: u32,
    counts: &[u32],
) -> Vec<Vec<u32>> {
    let first = distribution.map(|text| {
        text.split([':', ','])
            .next()
            .unwrap_or("")
            .to_ascii_lowercase()
    });
    let mut ranks: Vec<Vec<u32>> = vec![Vec::new(); counts.len()];
    let plane = first
        .as_deref()
        .and_then(|text| text.strip_prefix("plane="))
        .and_then(|n| n.parse::<u32>().ok());
    let cyclic = match first.as_deref() {
        Some("cyclic") => true,
        Some("block") => false,
        _ => num_tasks as usize <= counts.len(),
    };
    let chunk = plane.unwrap_or(if cyclic { 1 } else { u32::MAX }).max(1);
    let mut next = 0;
    while next < num_tasks {
        let before = next;
        for (node, count) in counts.iter().enumerate() {
            let mut given = 0;
            while given < chunk && next < num_tasks && (ranks[node].len() as u32) < *count {
                ranks[node].push(next);
                next += 1;
                given += 1;
            }
        }
        if next == before {
            break;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks go round the nodes while there is room: the counts of a golden `srun -N2 -n4` on 3+1 CPUs are 3 and 1.
    #[test]
    fn tasks_are_spread_within_the_room() {
        assert_eq!(spread(4, &[3, 1]), Some(vec![3, 1]));
        assert_eq!(spread(10, &[8, 8]), Some(vec![5, 5]));
        assert_eq!(spread(5, &[2, 2]), None);
        // agent reference 6: ten tasks on two nodes of eight CPUs.
        let count = |way, pack| count_tasks(way, pack, 10, &[8, 8]);
        assert_eq!(count(Some("block"), false), Some(vec![5, 5]));
        assert_eq!(count(Some("block,Pack"), false), Some(vec![8, 2]));
        // CR_Pack_Nodes packs under block distribution only, and -m says the last word.
        assert_eq!(count(None, true), Some(vec![8, 2]));
        assert_eq!(count(Some("block,NoPack"), true), Some(vec![5, 5]));
        assert_eq!(count(Some("cyclic"), true), Some(vec![5, 5]));
        assert_eq!(
            count_tasks(Some("plane=4"), false, 6, &[8, 8]),
            Some(vec![4, 2])
        );
    }

    /// srun(1) -m: block keeps consecutive ranks together, cyclic deals them out, plane deals out blocks.
    #[test]
    fn ranks_follow_the_distribution() {
        assert_eq!(assign_ranks(None, 4, &[3, 1]), vec![vec![0, 1, 2], vec![3]]);
        assert_eq!(
            assign_ranks(Some("cyclic"), 4, &[2, 2]),
            vec![vec![0, 2], vec![1, 3]]
        );
        assert_eq!(
            assign_ranks(Some("plane=2"), 6, &[4, 2]),
            vec![vec![0, 1, 4, 5], vec![2, 3]]
        );
        assert_eq!(
            assign_ranks(Some("block:cyclic"), 4, &[2, 2]),
            vec![vec![0, 1], vec![2, 3]]
        );
    }
}
