"""The reader of fenced blocks."""

import unittest

import blocks


def parse(info, text="true\n"):
    return blocks.parse("a.md", f"Text\n\n```{info}\n{text}```\n")


class Blocks(unittest.TestCase):
    def refused(self, info, pattern, text="true\n"):
        with self.assertRaisesRegex(blocks.Unreadable, pattern):
            parse(info, text)

    def test_marks(self):
        (block,) = parse('sh with=one small="A=1 B=x=y" terminals')
        self.assertEqual((block.place, block.language), ("a.md:3", "sh"))
        self.assertEqual(set(block.marks), {"with", "small", "terminals"})
        self.assertEqual(block.environment(), {"A": "1", "B": "x=y"})

    def test_commands(self):
        (block,) = parse("sh", "a b \\\n  --c d\n\n# so\ne\n")
        self.assertEqual(block.commands(), ["a b  --c d", "e"])
        (block,) = parse("console", "$ a b\nwhat it prints\n$ c\n")
        self.assertEqual(block.commands(), ["a b", "c"])

    def test_block_in_a_list(self):
        text = "- Item:\n  ```python\n  if x:\n      y\n  ```\n"
        (block,) = blocks.parse("a.md", text)
        self.assertEqual(block.text, "if x:\n    y\n")

    def test_what_is_wrong_is_said(self):
        self.refused("", "a.md:3: a block needs its language")
        self.refused("perl", "not 'perl'")
        self.refused("sh not-run", "'not-run' needs a value: why")
        self.refused('sh not-run=" "', "'not-run' needs a value: why")
        self.refused("sh no-run=x", "unknown mark 'no-run'")
        self.refused('sh not-run="x', "No closing quotation")
        self.refused("sh with=a with=b", "stands there twice")
        self.refused("sh terminals=2", "takes no value")
        self.refused("sh not-run=x with=a", "'not-run' and what says how")
        self.refused("sh after=a", "no block is marked with=a")
        self.refused("sh file=a.py", "'file' is for Python")
        self.refused("python terminals", "'terminals' is for commands")
        self.refused("python times=x", "'times' is a number")
        self.refused("sh small=A", "takes VARIABLE=VALUE")
        self.refused("text with=a", "is not run: no marks")
        with self.assertRaisesRegex(blocks.Unreadable, "a.md:1: .* not closed"):
            blocks.parse("a.md", "```sh\ntrue\n")


if __name__ == "__main__":
    unittest.main()
