"""What an interpreter shows of the SDK's main objects."""

from __future__ import annotations

import ottla


def test_a_client_shows_its_name_and_what_it_is_for() -> None:
    with (
        ottla.Producer("b0:1", topic="orders", client_id="p") as producer,
        ottla.Consumer("orders", "refunds", bootstrap="b0:1", client_id="c") as consumer,
        ottla.Admin("b0:1", client_id="a") as admin,
    ):
        assert repr(producer) == "Producer('orders', client_id='p')"
        assert repr(consumer) == "Consumer('orders', 'refunds', client_id='c')"
        assert repr(admin) == "Admin(client_id='a')"
    with ottla.Consumer(pattern="o.*", group="g", bootstrap="b0:1", client_id="c") as member:
        assert repr(member) == "Consumer(pattern='o.*', group='g', client_id='c')"
    with ottla.Producer("b0:1", client_id="p") as producer:
        assert repr(producer) == "Producer(client_id='p')"


def test_a_table_shows_its_topic_and_an_app_its_handlers() -> None:
    assert repr(ottla.Table("prices", bootstrap="b0:1")) == "Table('prices', not open)"
    app = ottla.App("billing", "b0:1")

    @app.on("orders")
    async def bill(order: object) -> None: ...

    assert repr(app) == "App('billing', 1 handler)"
