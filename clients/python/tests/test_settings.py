"""The cases of `clients/cases.json`, on which the clients agree: where the host is, and what is shown to it."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from host_jobs_client import Client, SettingsError
from host_jobs_client.settings import resolve

CASES = json.loads((Path(__file__).parents[2] / "cases.json").read_text())


class Settings(unittest.TestCase):
    def test_the_cases(self):
        for case in CASES:
            with self.subTest(case=case), tempfile.TemporaryDirectory() as folder:
                self.check(case, Path(folder))

    def check(self, case, folder):
        token_file = folder / "token"
        token_file.write_text("hst_file\n")
        (folder / "host").mkdir()
        if "contexts" in case:
            contexts = case["contexts"].replace("{token_file}", str(token_file))
            (folder / "host/contexts.toml").write_text(contexts)
        env = {key: value.replace("{token_file}", str(token_file)) for key, value in case.get("env", {}).items()}
        env["XDG_CONFIG_HOME"] = str(folder)
        then = case["then"]
        with mock.patch.dict(os.environ, env, clear=True):
            if "refused" in then:
                with self.assertRaises(SettingsError) as raised:
                    Client(case.get("given"), context=case.get("context"))
                self.assertIn(then["refused"], str(raised.exception))
                self.assertNotIn("hst_env", str(raised.exception))
                return
            found = resolve(case.get("given"), None, None, case.get("context"), None, None, None)
            client = Client(case.get("given"), context=case.get("context"))
        self.assertEqual((found.server, found.token), (then["server"], then.get("token")))
        for shown in (repr(found), repr(client), str(vars(client))):
            self.assertNotIn("hst_", shown)

    def test_a_socket_is_an_address(self):
        self.assertEqual(Client("unix:///run/host/api.sock", token="hst_x").server, "unix:///run/host/api.sock")
        with self.assertRaises(SettingsError):
            Client("unix://api.sock")
