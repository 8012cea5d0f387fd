'use strict'
// kafkajs behind the protocol of peers/driver.py: `node driver.js produce|consume|transact|transform|offset-for-time|admin|group|version JSON`.
//
// It has no consumer without a group: `consume` is one of a group of its own. Repeated headers come together, as
// values of one name. It writes no null header, and tells a time that no record has as the end of the partition.

const { randomUUID } = require('crypto')
const fs = require('fs')
const path = require('path')
const readline = require('readline')
const zstd = require('@bokuweb/zstd-wasm')
const kafkajs = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const rangeAssigner = require('./range_assigner')

const LIMIT_MS = 30_000
const MAX_BYTES = 10_000_000
// By default it gives up after five tries, in two seconds or so: before a partition has a new leader.
const RETRY = { retries: 50, initialRetryTime: 50, maxRetryTime: 500 }
const TYPES = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }

kafkajs.CompressionCodecs[TYPES.snappy] = snappy
kafkajs.CompressionCodecs[TYPES.lz4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
})
kafkajs.CompressionCodecs[TYPES.zstd] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  // Not all writers say in the frame how large it was; then there has to be room for the largest batch.
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer, { defaultHeapSize: MAX_BYTES })),
})

const COMMANDS = { version, produce, consume, transact, transform, 'offset-for-time': offsetForTime, admin, group }

async function main ([command, options]) {
  if (!Object.hasOwn(COMMANDS, command)) throw new Error(`no command ${command}`)
  if (!['produce', 'transact', 'group'].includes(command)) endAfterLimit()
  await zstd.init()
  await COMMANDS[command](JSON.parse(options ?? '{}'))
}

function version () {
  answer({ name: 'kafkajs', version: require('kafkajs/package.json').version })
}

async function produce (options) {
  const chosen = new WeakMap() // partitions, by message
  const producer = client(options).producer({
    idempotent: options.idempotent,
    maxInFlightRequests: 1, // more than one, and a request that is tried again is overtaken
    allowAutoTopicCreation: false,
    createPartitioner: () => {
      const byKey = kafkajs.Partitioners.DefaultPartitioner()
      return (about) => {
        const partition = options.partition === -1 ? byKey(about) : options.partition
        chosen.set(about.message, partition)
        return partition
      }
    },
  })
  await producer.connect()
  const offsets = []
  for await (const messages of asTheyCome()) {
    const told = await producer.send({
      topic: options.topic, acks: options.acks, compression: TYPES[options.codec], messages,
    })
    const next = new Map(told.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]))
    for (const message of messages) {
      const partition = chosen.get(message)
      offsets.push(options.acks === 0 ? -1 : next.get(partition))
      next.set(partition, next.get(partition) + 1)
    }
  }
  for (const offset of offsets) answer({ offset })
  await producer.disconnect()
}

// Batches of messages: those whose lines came while the last batch was being sent, up to a request of MAX_BYTES.
async function * asTheyCome () {
  const waiting = []
  let ended = false
  let wake = () => {}
  readline.createInterface({ input: process.stdin })
    .on('line', (line) => { waiting.push(line); wake() })
    .on('close', () => { ended = true; endAfterLimit(); wake() })
  while (true) {
    if (waiting.length === 0) {
      if (ended) return
      await new Promise((resolve) => { wake = resolve })
      continue
    }
    let count = 0
    for (let size = 0; count < waiting.length && (count === 0 || size + waiting[count].length < MAX_BYTES); count++) {
      size += waiting[count].length
    }
    yield waiting.splice(0, count).map(message)
  }
}

function message (line) {
  const record = JSON.parse(line)
  const headers = {}
  for (const [name, value] of record.headers) (headers[name] ??= []).push(bytes(value))
  return { key: bytes(record.key), value: bytes(record.value), headers, timestamp: String(record.timestamp_ms) }
}

async function consume (options) {
  const consumer = client(options).consumer({
    groupId: randomUUID(),
    retry: RETRY,
    maxBytesPerPartition: MAX_BYTES,
    maxWaitTimeInMs: 100,
    readUncommitted: options.isolation === 'read_uncommitted',
  })
  await consumer.connect()
  await consumer.subscribe({ topic: options.topic, fromBeginning: true })
  const got = []
  await new Promise((resolve, reject) => {
    consumer.on('consumer.crash', ({ payload }) => { if (!payload.restart) reject(payload.error) })
    const eachMessage = async ({ partition, message }) => {
      if (Number(message.offset) >= options.offset && partition < options.partitions) got.push(message)
      if (got.length >= options.count) resolve()
    }
    consumer.run({ autoCommit: false, eachMessage }).catch(reject)
    for (let partition = 0; options.offset > 0 && partition < options.partitions; partition++) {
      consumer.seek({ topic: options.topic, partition, offset: String(options.offset) })
    }
  })
  for (const { key, value, headers, timestamp } of got.slice(0, options.count)) {
    const pairs = Object.entries(headers).flatMap(([name, values]) => [values].flat().map((v) => [name, text(v)]))
    answer({ key: text(key), value: text(value), headers: pairs, timestamp_ms: Number(timestamp) })
  }
  await consumer.disconnect()
}

async function transact (options) {
  const producer = await transactional(options)
  let transaction
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const step = JSON.parse(line)
    if (step.do === 'begin') transaction = await producer.transaction()
    else if (step.do) await transaction[step.do]()
    else await send(transaction, options, bytes(step.key), bytes(step.value))
  }
  await producer.disconnect()
}

async function transform (options) {
  const { source, group } = options
  const producer = await transactional(options)
  const transaction = await producer.transaction()
  const consumer = client(options).consumer({ groupId: group, retry: RETRY, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic: source, fromBeginning: true })
  const got = []
  await new Promise((resolve, reject) => {
    consumer.on('consumer.crash', ({ payload }) => { if (!payload.restart) reject(payload.error) })
    const eachMessage = async ({ message }) => { if (got.push(message) >= options.count) resolve() }
    consumer.run({ autoCommit: false, eachMessage }).catch(reject)
  })
  const copied = got.slice(0, options.count)
  for (const { key, value } of copied) await send(transaction, options, key, value)
  const offset = String(Number(copied.at(-1).offset) + 1)
  const topics = [{ topic: source, partitions: [{ partition: 0, offset }] }]
  await transaction.sendOffsets({ consumerGroupId: group, topics })
  await transaction[options.end]()
  await consumer.disconnect()
  await producer.disconnect()
}

async function transactional (options) {
  const producer = client(options).producer({
    transactionalId: options.transactional_id, idempotent: true, maxInFlightRequests: 1,
  })
  await producer.connect() // it takes over the id
  return producer
}

async function send (transaction, { topic }, key, value) {
  await transaction.send({ topic, messages: [{ key, value, partition: 0 }] })
}

async function offsetForTime (options) {
  await withAdmin(options, async (admin) => {
    const told = await admin.fetchTopicOffsetsByTimestamp(options.topic, options.timestamp_ms)
    answer({ offset: Number(told.find(({ partition }) => partition === 0).offset) })
  })
}

async function admin (options) {
  const { topic } = options
  const resource = { type: kafkajs.ConfigResourceTypes.TOPIC, name: topic }
  const did = []
  await withAdmin(options, async (admin) => {
    const partitions = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length

    check(await admin.createTopics({ topics: [{ topic, numPartitions: 3 }] }), 'create')
    did.push('create')
    check(await partitions() === 3, 'three partitions')
    did.push('describe')
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    check(await partitions() === 5, 'five partitions')
    did.push('partitions')
    const configEntries = [{ name: 'retention.ms', value: '60000' }]
    await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] })
    const asked = { includeSynonyms: false, resources: [{ ...resource, configNames: ['retention.ms'] }] }
    const described = await admin.describeConfigs(asked)
    check(described.resources[0].configEntries[0].configValue === '60000', 'the config is as it was set')
    did.push('config')
    check((await admin.listTopics()).includes(topic), 'listed')
    did.push('list')
    await sendThree(options)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] })
    const [first] = (await admin.fetchTopicOffsets(topic)).filter(({ partition }) => partition === 0)
    check(first.low === '2', 'the partition begins with offset 2')
    did.push('delete records')
    await admin.deleteTopics({ topics: [topic] })
    check(!(await admin.listTopics()).includes(topic), 'not listed')
    did.push('delete')
  })
  answer({ ok: true, did })
}

async function group (options) {
  const { topic } = options
  const consumer = client(options).consumer({
    groupId: options.group,
    sessionTimeout: 30_000,
    heartbeatInterval: 500, // it sends them between fetches, so these have to be short
    maxWaitTimeInMs: 100,
    partitionAssigners: [rangeAssigner],
    retry: RETRY,
  })
  let has = []
  const next = new Map() // offsets, by partition
  const assign = (partitions) => {
    answer({ revoked: has })
    answer({ assigned: partitions })
    has = partitions
    next.clear()
  }
  consumer.on('consumer.group_join', ({ payload }) => assign(payload.memberAssignment[topic] ?? []))
  consumer.on('consumer.rebalancing', () => assign([]))
  consumer.on('consumer.crash', ({ payload }) => { if (!payload.restart) fail(payload.error) })
  const commands = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: options.reset === 'earliest' })
  const eachMessage = async ({ partition, message }) => {
    next.set(partition, Number(message.offset) + 1)
    answer({ record: { partition, offset: Number(message.offset), value: text(message.value) } })
  }
  await consumer.run({ autoCommit: false, eachMessage })
  for await (const command of commands) {
    const [what, partition, offset] = command.split(' ')
    if (what === 'close') break
    if (what === 'commit') {
      await consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })))
    } else if (what === 'seek') {
      consumer.seek({ topic, partition: Number(partition), offset })
    } else {
      throw new Error(`no command ${command}`)
    }
    answer({ done: command })
  }
  await consumer.disconnect()
  process.exit(0) // whatever it still waits for
}

async function sendThree (options) {
  const producer = client(options).producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  await producer.connect()
  const messages = ['a', 'b', 'c'].map((value) => ({ value, partition: 0 }))
  await producer.send({ topic: options.topic, messages })
  await producer.disconnect()
}

async function withAdmin (options, work) {
  const admin = client(options).admin()
  await admin.connect()
  await work(admin)
  await admin.disconnect()
}

function client ({ bootstrap }) {
  return new kafkajs.Kafka({
    brokers: bootstrap.split(','),
    // stdout is for answers.
    logLevel: kafkajs.logLevel.ERROR,
    logCreator: () => ({ log }) => console.error(log.message, log.error ?? ''),
    retry: RETRY,
    ...security(),
  })
}

// The security of all connections of this process: peers/security.py says where it is found.
function security () {
  const file = path.join(process.env.KAFKA_CLIENT_SECURITY ?? '', 'client.json')
  if (!process.env.KAFKA_CLIENT_SECURITY || !fs.existsSync(file)) return {}
  const settings = JSON.parse(fs.readFileSync(file))
  const content = (name) => settings[name] && fs.readFileSync(settings[name])
  const certificates = { cert: content('ssl.certificate.location'), key: content('ssl.key.location') }
  return {
    ssl: settings['security.protocol'].endsWith('SSL') && { ca: content('ssl.ca.location'), ...certificates },
    sasl: settings['sasl.mechanism'] && {
      mechanism: settings['sasl.mechanism'].toLowerCase(),
      username: settings['sasl.username'],
      password: settings['sasl.password'],
    },
  }
}

function endAfterLimit () {
  setTimeout(() => fail(new Error(`not done in ${LIMIT_MS / 1000} s`)), LIMIT_MS).unref()
}

function fail (error) {
  console.error(error)
  process.exit(1)
}

function check (holds, what) {
  if (!holds) throw new Error(`not so: ${what}`)
}

const bytes = (text) => text === null ? null : Buffer.from(text, 'base64')
const text = (bytes) => bytes === null ? null : bytes.toString('base64')
const answer = (fields) => process.stdout.write(JSON.stringify(fields) + '\n')

main(process.argv.slice(2)).catch(fail)
