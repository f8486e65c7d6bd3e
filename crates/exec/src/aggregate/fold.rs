//! Folds: one small type for each kind of cell says how the cell takes one more number. The loops over them are here
//! too.

use arrow::datatypes::DataType;

use crate::group::{NumberForm, StateNumbers};

/// The content of a cell and how it grows.
///
/// A fold must not depend on how the rows were divided: the join of the folds of two parts is the fold of the whole.
/// The fold of no numbers changes nothing when it is joined.
pub(crate) trait Fold: Copy + Send + Sync + 'static {
    /// A number as the fold takes it.
    type Number: Copy + Default + 'static;
    /// The words of a cell that has taken no number.
    const INITIAL: &'static [u64];
    /// Whether the result does not depend on the order of the numbers or on how parts were joined.
    const IN_ANY_ORDER: bool = false;

    /// The form in which the fold takes values of `kind`; `None` if it only counts them.
    fn form(kind: &DataType) -> Option<NumberForm>;

    /// The numbers in the form that the fold takes; `None` if they have another form.
    fn numbers(numbers: &StateNumbers) -> Option<&[Self::Number]>;

    fn load(words: &[u64]) -> Self;

    fn store(self, words: &mut [u64]);

    /// Takes one number. Returns whether the total left its type.
    fn take(&mut self, number: Self::Number) -> bool;

    /// Takes several numbers. Returns whether the total left its type.
    #[inline(always)]
    fn take_all(&mut self, numbers: &[Self::Number]) -> bool {
        let mut is_bad = false;
        for number in numbers {
            is_bad |= self.take(*number);
        }
        is_bad
    }

    /// Takes the same number for each of `rows` rows. Returns whether the total left its type.
    fn take_times(&mut self, number: Self::Number, rows: u64) -> bool;

    /// Takes all numbers that another cell took. Returns whether the total left its type.
    fn join(&mut self, other: Self) -> bool;
}

/// Adds the cells at `at` of rows to those of their groups. Returns whether a total left its type.
pub(crate) fn merge<F: Fold>(pairs: &[(u32, u32)], rows: &[u64], groups: &mut [u64], stride: usize, at: usize) -> bool {
    let mut is_bad = false;
    for (row, group) in pairs {
        let from = F::load(&rows[*row as usize * stride + at..][..F::INITIAL.len()]);
        let words = &mut groups[*group as usize * stride + at..][..F::INITIAL.len()];
        let mut cell = F::load(words);
        is_bad |= cell.join(from);
        cell.store(words);
    }
    is_bad
}

/// Groups up to which [`add_to_few`] is used. It gives each group one cell per lane, so all cells together take at most
/// 2 KiB on the stack. With more groups, neighbouring rows hit the same cell too rarely for lanes to help: random
/// groups take 0.6 ns per row instead of 1.0 for 2 groups, 0.55 instead of 0.6 for 8, and as long as without lanes for
/// 64.
const FEW: usize = 32;
/// Additions to one cell wait for each other. The additions to four lanes overlap, which hides their latency. For 2
/// groups, 2 lanes take 0.71 to 0.75 ns per row, 4 lanes 0.70 to 0.76 and 8 lanes 0.70 to 0.79, all with 128 cells.
const LANES: usize = 4;
const LANE_WORDS_MAX: usize = 2;

/// Adds numbers to the cells of up to [`FEW`] groups. Neighbouring rows often belong to the same group, and adding to a
/// cell must wait until the previous sum is stored. So neighbours add to cells of their own, in separate lanes, and the
/// lanes are joined at the end.
fn add_to_few<F: Fold>(numbers: &[F::Number], of_numbers: &[u32], words: &mut [u64], stride: usize, at: usize) -> bool {
    let len = F::INITIAL.len();
    let groups = words.len() / stride;
    let mut lanes = [[[0; LANE_WORDS_MAX]; FEW]; LANES];
    for lane in &mut lanes {
        lane[..groups].iter_mut().for_each(|cell| cell[..len].copy_from_slice(F::INITIAL));
    }
    let mut is_bad = false;
    let mut add = |lane: &mut [[u64; LANE_WORDS_MAX]; FEW], number: F::Number, group: u32| {
        // The modulo changes nothing, because group numbers are less than `FEW`. It spares the bounds check.
        let words = &mut lane[group as usize % FEW];
        let mut cell = F::load(words);
        is_bad |= cell.take(number);
        cell.store(words);
    };
    let (numbers, rest) = numbers.as_chunks::<LANES>();
    let (of_numbers, of_rest) = of_numbers.as_chunks::<LANES>();
    for (numbers, groups) in numbers.iter().zip(of_numbers) {
        for (lane, (number, group)) in lanes.iter_mut().zip(numbers.iter().zip(groups)) {
            add(lane, *number, *group);
        }
    }
    rest.iter().zip(of_rest).for_each(|(number, group)| add(&mut lanes[0], *number, *group));
    for lane in &lanes {
        for (group, from) in lane[..groups].iter().enumerate() {
            let words = &mut words[group * stride + at..][..len];
            let mut cell = F::load(words);
            is_bad |= cell.join(F::load(from));
            cell.store(words);
        }
    }
    is_bad
}

/// Adds numbers to the cells at `at` of their groups. Returns whether a total left its type.
pub(crate) fn add_to_many<F: Fold>(
    numbers: &[F::Number],
    groups: &[u32],
    words: &mut [u64],
    stride: usize,
    at: usize,
) -> bool {
    // Lanes pay only if few groups get many rows.
    let is_few = words.len() <= FEW * stride && numbers.len() >= FEW * LANES * 2;
    // Lanes change the order of additions, so only folds that allow that may use them.
    if F::IN_ANY_ORDER && F::INITIAL.len() <= LANE_WORDS_MAX && is_few {
        return add_to_few::<F>(numbers, groups, words, stride, at);
    }
    let mut is_bad = false;
    for (number, group) in numbers.iter().zip(groups) {
        let words = &mut words[*group as usize * stride + at..][..F::INITIAL.len()];
        let mut cell = F::load(words);
        is_bad |= cell.take(*number);
        cell.store(words);
    }
    is_bad
}

/// Adds numbers to one cell. Returns whether a total left its type.
pub(crate) fn add_to_one<F: Fold>(numbers: &[F::Number], words: &mut [u64]) -> bool {
    let mut cell = F::load(words);
    let is_bad = cell.take_all(numbers);
    cell.store(words);
    is_bad
}

/// The number of rows. The caller counts the rows and passes no numbers.
#[derive(Clone, Copy)]
pub(crate) struct Count(u64);

impl Fold for Count {
    type Number = ();
    const INITIAL: &'static [u64] = &[0];
    const IN_ANY_ORDER: bool = true;

    fn form(_: &DataType) -> Option<NumberForm> {
        None
    }

    fn numbers(_: &StateNumbers) -> Option<&[()]> {
        None
    }

    #[inline(always)]
    fn load(words: &[u64]) -> Count {
        Count(words[0])
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        words[0] = self.0;
    }

    #[inline(always)]
    fn take(&mut self, (): ()) -> bool {
        self.0 += 1;
        false
    }

    #[inline(always)]
    fn take_times(&mut self, (): (), rows: u64) -> bool {
        self.0 += rows;
        false
    }

    #[inline(always)]
    fn join(&mut self, other: Count) -> bool {
        self.0 += other.0;
        false
    }
}

/// The total of integers whose total fits 64 bits.
pub(crate) type SumNarrow = Sum<i64, i64>;

/// The total of signed integers.
pub(crate) type SumSigned = Sum<i64, i128>;

/// The total of unsigned integers.
pub(crate) type SumUnsigned = Sum<u64, i128>;

/// The total of decimals.
pub(crate) type SumWide = Sum<i128, i128>;

/// A total of type `T` over numbers of type `N`.
#[derive(Clone, Copy)]
pub(crate) struct Sum<N, T>(T, std::marker::PhantomData<N>);

/// Numbers of one of the forms, which are added up or compared.
pub(crate) trait Number: Copy + Default + Send + Sync + 'static {
    /// The form.
    const FORM: NumberForm;

    fn of(numbers: &StateNumbers) -> Option<&[Self]>;
}

impl Number for i64 {
    const FORM: NumberForm = NumberForm::Signed;

    fn of(numbers: &StateNumbers) -> Option<&[i64]> {
        if let StateNumbers::Signed(numbers) = numbers { Some(numbers) } else { None }
    }
}

impl Number for u64 {
    const FORM: NumberForm = NumberForm::Unsigned;

    fn of(numbers: &StateNumbers) -> Option<&[u64]> {
        if let StateNumbers::Unsigned(numbers) = numbers { Some(numbers) } else { None }
    }
}

impl Number for i128 {
    const FORM: NumberForm = NumberForm::Wide;

    fn of(numbers: &StateNumbers) -> Option<&[i128]> {
        if let StateNumbers::Wide(numbers) = numbers { Some(numbers) } else { None }
    }
}

/// The content of a cell, stored in its words.
pub(crate) trait Content: Copy + Ord + Send + Sync + 'static {
    const ZERO: &'static [u64];
    const LEAST: &'static [u64];
    const GREATEST: &'static [u64];

    fn load(words: &[u64]) -> Self;

    fn store(self, words: &mut [u64]);
}

/// The content of a cell that is a total.
pub(crate) trait Total: Content {
    fn plus(self, other: Self) -> (Self, bool);

    fn times(self, rows: u64) -> (Self, bool);
}

impl Content for i64 {
    const ZERO: &'static [u64] = &[0];
    const LEAST: &'static [u64] = &[i64::MIN as u64];
    const GREATEST: &'static [u64] = &[i64::MAX as u64];

    #[inline(always)]
    fn load(words: &[u64]) -> i64 {
        words[0] as i64
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        words[0] = self as u64;
    }
}

impl Content for i128 {
    const ZERO: &'static [u64] = &[0, 0];
    const LEAST: &'static [u64] = &[0, i64::MIN as u64];
    const GREATEST: &'static [u64] = &[u64::MAX, i64::MAX as u64];

    #[inline(always)]
    fn load(words: &[u64]) -> i128 {
        (u128::from(words[0]) | u128::from(words[1]) << 64) as i128
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        (words[0], words[1]) = (self as u64, (self as u128 >> 64) as u64);
    }
}

impl Total for i64 {
    #[inline(always)]
    fn plus(self, other: i64) -> (i64, bool) {
        self.overflowing_add(other)
    }

    #[inline(always)]
    fn times(self, rows: u64) -> (i64, bool) {
        // This cannot change the sign: a table has fewer rows than an `i64` can count.
        self.overflowing_mul(rows as i64)
    }
}

impl Total for i128 {
    #[inline(always)]
    fn plus(self, other: i128) -> (i128, bool) {
        self.overflowing_add(other)
    }

    #[inline(always)]
    fn times(self, rows: u64) -> (i128, bool) {
        self.overflowing_mul(i128::from(rows))
    }
}

impl<N: Number, T: Total + From<N>> Fold for Sum<N, T> {
    type Number = N;
    const INITIAL: &'static [u64] = T::ZERO;
    // A partial total of wide numbers may leave the type although the whole total does not, so the order matters.
    const IN_ANY_ORDER: bool = size_of::<N>() <= size_of::<u64>();

    fn form(kind: &DataType) -> Option<NumberForm> {
        // The caller knows that the values fit 64 bits, although their type may be wider.
        let is_small = N::FORM == NumberForm::Signed && matches!(kind, DataType::UInt64 | DataType::Decimal128(..));
        Some(if is_small { NumberForm::Small } else { N::FORM })
    }

    fn numbers(numbers: &StateNumbers) -> Option<&[N]> {
        N::of(numbers)
    }

    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        Sum(T::load(words), std::marker::PhantomData)
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        self.0.store(words);
    }

    #[inline(always)]
    fn take(&mut self, number: N) -> bool {
        let (total, is_bad) = self.0.plus(T::from(number));
        self.0 = total;
        is_bad
    }

    #[inline(always)]
    fn take_times(&mut self, number: N, rows: u64) -> bool {
        // An overflow in either step is an error, even if the other one brings the total back.
        let (added, is_bad) = T::from(number).times(rows);
        let (total, is_worse) = self.0.plus(added);
        self.0 = total;
        is_bad | is_worse
    }

    #[inline(always)]
    fn join(&mut self, other: Self) -> bool {
        let (total, is_bad) = self.0.plus(other.0);
        self.0 = total;
        is_bad
    }
}

/// The numbers of floats.
pub(crate) fn float_numbers(numbers: &StateNumbers) -> Option<&[f64]> {
    if let StateNumbers::Float(numbers) = numbers { Some(numbers) } else { None }
}

/// A total of floats and its rounding error (Knuth's two-sum), so that the order of the rows matters little.
#[derive(Clone, Copy)]
pub(crate) struct SumFloat {
    total: f64,
    lost: f64,
}

impl SumFloat {
    /// The total. If it is infinite or NaN, the rounding error is NaN and must be left out.
    pub(crate) fn total(&self) -> f64 {
        if self.total.is_finite() { self.total + self.lost } else { self.total }
    }
}

impl Fold for SumFloat {
    type Number = f64;
    const INITIAL: &'static [u64] = &[0, 0];
    // The errors of all additions are kept. So another order changes at most the rounding of these errors, which is as
    // small as that of the errors of parts, and threads make parts anyway.
    const IN_ANY_ORDER: bool = true;

    fn form(_: &DataType) -> Option<NumberForm> {
        Some(NumberForm::Float)
    }

    fn numbers(numbers: &StateNumbers) -> Option<&[f64]> {
        float_numbers(numbers)
    }

    #[inline(always)]
    fn load(words: &[u64]) -> SumFloat {
        SumFloat { total: f64::from_bits(words[0]), lost: f64::from_bits(words[1]) }
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        (words[0], words[1]) = (self.total.to_bits(), self.lost.to_bits());
    }

    #[inline(always)]
    fn take(&mut self, number: f64) -> bool {
        let (total, lost) = two_sum(self.total, number);
        self.lost += lost;
        self.total = total;
        false
    }

    /// Takes neighbouring numbers in lanes of their own, because additions to one total wait for each other.
    #[inline]
    fn take_all(&mut self, numbers: &[f64]) -> bool {
        let in_lanes = if numbers.len() < FLOATS_IN_LANES_MIN { 0 } else { numbers.len() };
        let (in_lanes, rest) = numbers.split_at(in_lanes / FLOAT_LANES * FLOAT_LANES);
        if !in_lanes.is_empty() {
            let mut lanes = FloatLanes { totals: [0.0; FLOAT_LANES], lost: [0.0; FLOAT_LANES] };
            in_lanes.as_chunks().0.iter().for_each(|numbers| lanes.take(numbers));
            for (total, lost) in lanes.totals.into_iter().zip(lanes.lost) {
                self.join(SumFloat { total, lost });
            }
        }
        let mut is_bad = false;
        for number in rest {
            is_bad |= self.take(*number);
        }
        is_bad
    }

    #[inline(always)]
    fn take_times(&mut self, number: f64, rows: u64) -> bool {
        self.take(number * rows as f64)
    }

    #[inline(always)]
    fn join(&mut self, other: SumFloat) -> bool {
        self.take(other.total);
        self.lost += other.lost;
        false
    }
}

/// Returns the rounded sum of two floats, and exactly the part of both that the rounded sum does not have.
#[inline(always)]
fn two_sum(left: f64, right: f64) -> (f64, f64) {
    let total = left + right;
    let taken = total - left;
    (total, (left - (total - taken)) + (right - taken))
}

/// Lanes of a sum of floats. They stay in memory, so that the compiler makes vector instructions of the additions: 0.7
/// ns for each number instead of 1.8 ns with eight lanes in registers.
const FLOAT_LANES: usize = 64;
/// With fewer numbers, joining the lanes would cost more than they save.
const FLOATS_IN_LANES_MIN: usize = 4 * FLOAT_LANES;

/// Sums of floats as [`SumFloat`], one for each lane.
struct FloatLanes {
    totals: [f64; FLOAT_LANES],
    lost: [f64; FLOAT_LANES],
}

impl FloatLanes {
    /// Takes one number for each lane. If it were inlined, the lanes would become variables again.
    #[inline(never)]
    fn take(&mut self, numbers: &[f64; FLOAT_LANES]) {
        for ((lane, lost), number) in self.totals.iter_mut().zip(&mut self.lost).zip(numbers) {
            let (total, error) = two_sum(*lane, *number);
            *lost += error;
            *lane = total;
        }
    }
}

/// The least number.
#[derive(Clone, Copy)]
pub(crate) struct Least<N>(N);

/// The greatest number.
#[derive(Clone, Copy)]
pub(crate) struct Greatest<N>(N);

macro_rules! extreme {
    ($name:ident, $initial:ident, $better:ident) => {
        impl<N: Number + Content> Fold for $name<N> {
            type Number = N;
            const INITIAL: &'static [u64] = N::$initial;

            fn form(_: &DataType) -> Option<NumberForm> {
                Some(N::FORM)
            }

            fn numbers(numbers: &StateNumbers) -> Option<&[N]> {
                N::of(numbers)
            }

            #[inline(always)]
            fn load(words: &[u64]) -> Self {
                $name(N::load(words))
            }

            #[inline(always)]
            fn store(self, words: &mut [u64]) {
                self.0.store(words);
            }

            #[inline(always)]
            fn take(&mut self, number: N) -> bool {
                self.0 = self.0.$better(number);
                false
            }

            #[inline(always)]
            fn take_times(&mut self, number: N, _: u64) -> bool {
                self.take(number)
            }

            #[inline(always)]
            fn join(&mut self, other: Self) -> bool {
                self.take(other.0)
            }
        }
    };
}

extreme!(Least, GREATEST, min);
extreme!(Greatest, LEAST, max);
