//! Go-back-N, checked with values computed by hand.

use fabric_model::Span;

use crate::{GoBackNAnswer, GoBackNReceiver, GoBackNSender};

use super::at;

fn sent(sender: &mut GoBackNSender, micros: u64) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| sender.transmit(at(micros))).collect()
}

#[test]
fn goes_back_on_a_negative_acknowledgment_and_on_a_timeout() {
    let mut sender = GoBackNSender::new(4, Span::from_micros(100));
    assert_eq!(sent(&mut sender, 0), [(0, false), (1, false), (2, false), (3, false)]);
    sender.on_ack(at(10), 1);
    assert_eq!(sent(&mut sender, 10), [(4, false)]);
    sender.on_nack(at(20), 2);
    assert_eq!(sent(&mut sender, 20), [(2, true), (3, true), (4, true), (5, false)]);
    assert_eq!(sender.timer(), Some(at(120)));
    sender.on_timer(at(119));
    assert!(!sender.may_send());
    sender.on_timer(at(120));
    assert_eq!(sent(&mut sender, 120), [(2, true), (3, true), (4, true), (5, true)]);
    sender.on_ack(at(130), 6);
    assert_eq!(sender.timer(), None);
    sender.on_ack(at(131), 90);
    assert_eq!(sent(&mut sender, 140)[0], (6, false), "an acknowledgment of a segment never sent is ignored");
}

#[test]
fn one_answer_to_a_gap() {
    let mut receiver = GoBackNReceiver::default();
    let answers: Vec<_> = [0, 2, 3, 1, 3, 2, 1].map(|segment| receiver.on_segment(segment)).into();
    let (ack, nack) = (|next| Some(GoBackNAnswer::Ack(next)), |next| Some(GoBackNAnswer::Nack(next)));
    assert_eq!(answers, [ack(1), nack(1), None, ack(2), nack(2), ack(3), ack(3)]);
    assert_eq!(receiver.next(), 3);
}
