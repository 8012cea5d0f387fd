"""The security of a client's connections: every driver, tool and worker finds it in one folder.

The environment variable KAFKA_CLIENT_SECURITY names the folder, so a process and those that it starts share it. It has
two files with the same content, because Kafka's clients have two ways to write it:

    client.json         as librdkafka has it. The drivers in Python, Go and JavaScript read it, too.
        security.protocol, sasl.mechanism, sasl.username, sasl.password,
        ssl.ca.location, ssl.certificate.location, ssl.key.location
    client.properties   as Kafka's own programs in Java have it

Without the variable or the files, connections are plaintext, without a login.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "KAFKA_CLIENT_SECURITY"
_JSON: Final = "client.json"
_PROPERTIES: Final = "client.properties"
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OF_KAFKA_PYTHON: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
}


def write(folder: Path, settings: Mapping[str, str]) -> Path:
    """Write the files of this security, by librdkafka's names, into a folder that is made for them. Return the
    folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _JSON).write_text(json.dumps(dict(settings)))
    lines = (f"{name}={_escaped(value)}\n" for name, value in of_java(settings).items())
    (folder / _PROPERTIES).write_text("".join(lines))
    return folder


def librdkafka() -> dict[str, str]:
    """Return the settings of this process as librdkafka has them: none if its connections are plaintext."""
    file = _file(_JSON)
    return {} if file is None else dict(json.loads(file.read_text()))


def kafka_python() -> dict[str, Any]:
    """Return the settings of this process as kafka-python has them."""
    return {_OF_KAFKA_PYTHON[name]: value for name, value in librdkafka().items()}


def aiokafka() -> dict[str, Any]:
    """Return the settings of this process as aiokafka has them: TLS is a context there."""
    settings = kafka_python()
    ca, certificate, key = (settings.pop(f"ssl_{file}file", None) for file in ("ca", "cert", "key"))
    if ca is not None:
        settings["ssl_context"] = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            settings["ssl_context"].load_cert_chain(certificate, key)
    return settings


def java(prefix: str = "") -> dict[str, str]:
    """Return the settings of this process as Kafka's programs in Java have them, each name with the prefix."""
    return {f"{prefix}{name}": value for name, value in of_java(librdkafka()).items()}


def java_properties(prefix: str = "") -> str:
    """Return the lines of a file of properties: the settings of this process."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in java(prefix).items())


def properties_file() -> Path | None:
    """Return the file that Kafka's tools take as --command-config, or None if connections are plaintext."""
    return _file(_PROPERTIES)


def of_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by librdkafka's names as Kafka's programs in Java have them."""
    found = {name: settings[name] for name in ("security.protocol", "sasl.mechanism") if name in settings}
    if "sasl.username" in settings:
        module = _MODULES[settings["sasl.mechanism"]]
        user, password = settings["sasl.username"], settings["sasl.password"]
        found["sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'
    if "ssl.ca.location" in settings:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings["ssl.ca.location"]}
    if "ssl.key.location" in settings:
        # By its text, not its location: there it would have to be one file with the certificate.
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": Path(settings["ssl.key.location"]).read_text(),
            "ssl.keystore.certificate.chain": Path(settings["ssl.certificate.location"]).read_text(),
        }
    return found


def _file(name: str) -> Path | None:
    folder = os.environ.get(VARIABLE)
    file = Path(folder) / name if folder else None
    return file if file is not None and file.exists() else None


def _escaped(value: str) -> str:
    """Return a value as a file of properties has it: on one line."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
