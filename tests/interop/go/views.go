package main

import (
	"maps"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A received message, under the names that the Java probe uses.
type received struct {
	Topic          string            `json:"topic"`
	BrokerName     string            `json:"brokerName"`
	QueueID        int               `json:"queueId"`
	QueueOffset    int64             `json:"queueOffset"`
	MsgID          string            `json:"msgId"`
	OffsetMsgID    string            `json:"offsetMsgId"`
	Tags           string            `json:"tags"`
	Keys           string            `json:"keys"`
	Flag           int32             `json:"flag"`
	SysFlag        int32             `json:"sysFlag"`
	ReconsumeTimes int32             `json:"reconsumeTimes"`
	BornTimestamp  int64             `json:"bornTimestamp"`
	StoreTimestamp int64             `json:"storeTimestamp"`
	BornHost       string            `json:"bornHost"`
	StoreHost      string            `json:"storeHost"`
	Properties     map[string]string `json:"properties"`
	Body           string            `json:"body"`
}

func receivedOf(message *primitive.MessageExt) received {
	one := received{
		Topic:          message.Topic,
		QueueOffset:    message.QueueOffset,
		MsgID:          message.MsgId,
		OffsetMsgID:    message.OffsetMsgId,
		Tags:           message.GetTags(),
		Keys:           message.GetKeys(),
		Flag:           message.Flag,
		SysFlag:        message.SysFlag,
		ReconsumeTimes: message.ReconsumeTimes,
		BornTimestamp:  message.BornTimestamp,
		StoreTimestamp: message.StoreTimestamp,
		BornHost:       message.BornHost,
		StoreHost:      message.StoreHost,
		Properties:     maps.Clone(message.GetProperties()),
		Body:           string(message.Body),
	}
	if message.Queue != nil {
		one.BrokerName, one.QueueID = message.Queue.BrokerName, message.Queue.QueueId
	}
	return one
}

func receivedAll(messages []*primitive.MessageExt) []received {
	all := []received{}
	for _, message := range messages {
		all = append(all, receivedOf(message))
	}
	return all
}

// A sent message, as its result tells of it.
type sent struct {
	Form        string `json:"form"`
	Key         string `json:"key"`
	Status      string `json:"status"`
	MsgID       string `json:"msgId"`
	OffsetMsgID string `json:"offsetMsgId"`
	BrokerName  string `json:"brokerName"`
	QueueID     int    `json:"queueId"`
	QueueOffset int64  `json:"queueOffset"`
	RegionID    string `json:"regionId"`
}

var statusNames = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	primitive.SendUnknownError:      "UNKNOWN",
}

func sentOf(form, key string, result *primitive.SendResult) sent {
	one := sent{
		Form:        form,
		Key:         key,
		Status:      statusNames[result.Status],
		MsgID:       result.MsgID,
		OffsetMsgID: result.OffsetMsgID,
		QueueOffset: result.QueueOffset,
		RegionID:    result.RegionID,
	}
	if result.MessageQueue != nil {
		one.BrokerName, one.QueueID = result.MessageQueue.BrokerName, result.MessageQueue.QueueId
	}
	return one
}
