"""A web service without a database: it writes each order that is posted to a topic, and looks orders up in a table.

    ottla up
    pip install fastapi uvicorn
    uvicorn --app-dir examples web_service:app
    curl localhost:8000/orders -H "Content-Type: application/json" -d '{"article": "pear", "count": 2}'

The table is in memory and follows the compacted topic. So a lookup costs no request, and a service that is restarted
has all orders again.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

import ottla.aio


@dataclass
class Order:
    article: str
    count: int


producer = ottla.aio.Producer[str, Order](topic="orders", key="str", value=Order)
orders = ottla.aio.Table[str, Order]("orders", key="str", value=Order)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Serve only while the producer and the table are open, and not before the table has all orders."""
    async with ottla.aio.Admin() as admin:
        await admin.topics.create("orders", partitions=3, config={"cleanup.policy": "compact"}, if_exists="ok")
    async with producer, orders:
        await orders.wait_until_caught_up()
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def take_order(order: Order) -> dict[str, str]:
    """Answer when the order is acknowledged and can be looked up here."""
    number = str(uuid.uuid4())
    where = await producer.send(order, key=number)
    await orders.wait_for(where.partition, where.offset)
    return {"id": number}


@app.get("/orders/{number}")
async def look_up(number: str) -> Order:
    if (order := orders.get(number)) is None:
        raise HTTPException(404, f"there is no order {number}")
    return order


@app.exception_handler(ottla.OttlaError)
async def refuse(_: Request, error: Exception) -> JSONResponse:
    """Say that the order was not taken, and why. The client may try again."""
    return JSONResponse({"detail": str(error)}, status_code=503)
