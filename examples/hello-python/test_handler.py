import unittest
from types import SimpleNamespace

from handler import handle

CONTEXT = SimpleNamespace(request_id="test", version=1)


class HelloTest(unittest.TestCase):
    def test_greets_by_name(self):
        self.assertEqual(handle({"name": "Ada"}, CONTEXT)["message"], "Hello, Ada!")

    def test_greets_the_world_without_a_name(self):
        self.assertEqual(handle({}, CONTEXT)["message"], "Hello, world!")


if __name__ == "__main__":
    unittest.main()
