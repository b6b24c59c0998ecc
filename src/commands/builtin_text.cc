#include "commands/builtin_text.h"

namespace quire::commands {

std::string_view builtin_text() {
  static constexpr std::string_view kText =
      R"(The ferry to the outer islands leaves at seven in the morning, and whoever misses it waits until the next day. On board there is room for
forty cars, two trucks and about three hundred people, most of whom sleep through the first hour. The captain has made the trip eleven
thousand times. She says that the sea has never looked the same twice, which is why she has never learned to be bored.

Question: A baker sells 36 rolls in the morning and twice as many in the afternoon. How many rolls does he sell in all?
Answer: In the afternoon he sells 2 * 36 = 72 rolls. 36 + 72 = 108. The answer is 108.

Question: Mia has 15 marbles. She gives 4 to her brother and finds 9 more. How many marbles does she have now?
Answer: 15 - 4 = 11. 11 + 9 = 20.
#### 20

Things to bring: (1) warm clothes; (2) a torch, with batteries; (3) bread, cheese, apples; (4) the map - not the old one! - and a pencil.

def mean(values):
    """The average of a list of numbers; an empty list has none."""
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)

{"name": "sensor-17", "unit": "celsius", "readings": [21.5, 21.7, 22.0, -3.25, 1e-3], "ok": true, "next": null}

In 1687 a book appeared that explained the tides, the moon's path and the fall of a stone by one rule. Its author did not say what gravity
is; he said how it behaves, and showed that this is enough to calculate. "I do not make up causes," he wrote. Later generations tested the
rule to many decimal places. It held, until Mercury was found to be early by 43 seconds of arc in a hundred years: a small number, and the
end of a great certainty.

User: Could you explain why the sky is blue, in two sentences?
Assistant: Air scatters short waves of light much more strongly than long ones, so blue light reaches us from every direction. Near sunset
the light has crossed so much air that most of the blue is gone, and red is what remains.

The quick brown fox jumps over the lazy dog; THE FIVE BOXING WIZARDS JUMP QUICKLY. 0 1 2 3 4 5 6 7 8 9 10 11 12 100 1,000 1,000,000.
)";
  return kText;
}

}  // namespace quire::commands
