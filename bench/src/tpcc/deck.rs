//! The choice of the next transaction: a deck of a hundred cards that is shuffled and dealt to its end. So every
//! hundred transactions of a client have exactly the required mix (clause 5.2.4.2).

use super::random::Random;

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Enters an order.
    NewOrder,
    /// Takes a customer's payment.
    Payment,
    /// Shows a customer's last order.
    OrderStatus,
    /// Delivers the oldest new order of each district.
    Delivery,
    /// Counts the items that run short.
    StockLevel,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 5] = [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }

    /// The cards of this kind in a hundred: the least that the specification allows, and the rest for New-Order.
    fn cards(self) -> usize {
        match self {
            Kind::NewOrder => 45,
            Kind::Payment => 43,
            Kind::OrderStatus | Kind::Delivery | Kind::StockLevel => 4,
        }
    }

    /// Whether it writes. With full durability a transaction that writes waits for the disk.
    pub fn writes(self) -> bool {
        matches!(self, Kind::NewOrder | Kind::Payment | Kind::Delivery)
    }
}

/// A client's deck.
#[derive(Debug)]
pub struct Deck {
    cards: Vec<Kind>,
    dealt: usize,
}

impl Deck {
    /// Makes a deck. It is shuffled before the first card is dealt.
    pub fn new() -> Deck {
        let cards: Vec<Kind> = Kind::ALL.into_iter().flat_map(|kind| std::iter::repeat_n(kind, kind.cards())).collect();
        Deck { dealt: cards.len(), cards }
    }

    /// Deals the next card.
    pub fn deal(&mut self, random: &mut Random) -> Kind {
        if self.dealt == self.cards.len() {
            random.shuffle(&mut self.cards);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}

impl Default for Deck {
    fn default() -> Self {
        Deck::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_cards_are_the_mix() {
        let (mut deck, mut random) = (Deck::new(), Random::new(1, 0));
        let mut hands = Vec::new();
        for _ in 0..3 {
            let hand: Vec<Kind> = (0..100).map(|_| deck.deal(&mut random)).collect();
            for kind in Kind::ALL {
                assert_eq!(hand.iter().filter(|&&card| card == kind).count(), kind.cards());
            }
            hands.push(hand);
        }
        assert!(hands[0] != hands[1] && hands[1] != hands[2]);
    }
}
