//! The last bytes that were given to HDFS: those that its DataNodes may not have confirmed.

use std::collections::VecDeque;

use bytes::Bytes;

/// More than hdfs-native lets be on their way: two queues of 100 packets of 64 KiB.
const KEPT: u64 = 16 << 20;

/// What lies between two places of a file, of which the later one is where it ends now.
pub struct Unconfirmed {
    begin: u64,
    end: u64,
    pieces: VecDeque<Bytes>,
}

impl Unconfirmed {
    pub fn after(position: u64) -> Self {
        Self {
            begin: position,
            end: position,
            pieces: VecDeque::new(),
        }
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// Add what follows, and forget what must have been confirmed long since.
    pub fn push(&mut self, data: Bytes) {
        self.end += data.len() as u64;
        self.pieces.push_back(data);
        while let Some(first) = self.pieces.front()
            && self.begin + first.len() as u64 + KEPT <= self.end
        {
            self.begin += first.len() as u64;
            self.pieces.pop_front();
        }
    }

    /// What follows a place; none if that is not known here, or not part of the file.
    pub fn since(&self, position: u64) -> Option<Vec<Bytes>> {
        if !(self.begin..=self.end).contains(&position) {
            return None;
        }
        let mut at = self.begin;
        let mut following = Vec::new();
        for piece in &self.pieces {
            let skipped = position.saturating_sub(at).min(piece.len() as u64);
            if skipped < piece.len() as u64 {
                following.push(piece.slice(skipped as usize..));
            }
            at += piece.len() as u64;
        }
        Some(following)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_place() {
        let mut kept = Unconfirmed::after(10);
        kept.push(Bytes::from_static(b"abc"));
        kept.push(Bytes::from_static(b"def"));
        let since = |place| kept.since(place).map(|pieces| pieces.concat());
        assert_eq!(since(10), Some(b"abcdef".to_vec()));
        assert_eq!(since(13), Some(b"def".to_vec()));
        assert_eq!(since(15), Some(b"f".to_vec()));
        assert_eq!(since(16), Some(Vec::new()));
        assert_eq!(since(9), None);
        assert_eq!(since(17), None);
    }

    #[test]
    fn old_pieces_are_forgotten() {
        let mut kept = Unconfirmed::after(0);
        for _ in 0..20 {
            kept.push(Bytes::from(vec![0; 1 << 20]));
        }
        assert!(kept.since((4 << 20) - 1).is_none());
        assert_eq!(kept.since(4 << 20).unwrap().len(), 16);
    }
}
