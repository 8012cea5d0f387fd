'use strict'
// Kafka's range assignor for kafkajs, which has none: it is what members of other clients agree on with it.

const { AssignerProtocol: { MemberMetadata, MemberAssignment } } = require('kafkajs')

module.exports = ({ cluster }) => ({
  name: 'range',
  version: 0,

  protocol ({ topics }) {
    return { name: 'range', metadata: MemberMetadata.encode({ version: 0, topics }) }
  },

  // Of each topic, every member that wants it has a run of partitions, the first ones one more where they don't divide.
  async assign ({ members, topics }) {
    const wanted = members.map(({ memberId, memberMetadata }) => [memberId, MemberMetadata.decode(memberMetadata).topics])
    const shares = new Map(members.map(({ memberId }) => [memberId, {}]))
    for (const topic of topics) {
      const ids = wanted.filter(([, topics]) => topics.includes(topic)).map(([id]) => id).sort()
      const partitions = cluster.findTopicPartitionMetadata(topic).map((p) => p.partitionId).sort((a, b) => a - b)
      ids.forEach((id, n) => {
        const membersLeft = ids.length - n
        shares.get(id)[topic] = partitions.splice(0, Math.ceil(partitions.length / membersLeft))
      })
    }
    return [...shares].map(([memberId, assignment]) => ({
      memberId, memberAssignment: MemberAssignment.encode({ version: 0, assignment }),
    }))
  },
})
